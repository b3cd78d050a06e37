// The kernels over the threads of LibTorch.
#include <ATen/Parallel.h>

#include "gnet/threaded_kernels.h"

namespace gbcompress {
namespace {

void run_by_torch(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, n, grain, body);
}

}  // namespace

std::unique_ptr<TileKernel> make_fused_kernel() { return make_fused_kernel_with(&run_by_torch); }
std::unique_ptr<TileKernel> make_exact_kernel() { return make_exact_kernel_with(&run_by_torch); }

}  // namespace gbcompress
