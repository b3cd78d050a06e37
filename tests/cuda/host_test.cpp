// The kernels of the cuda module, run on the host, against the reference kernel.
#include "cuda/host_module.h"
#include "cuda/kernel_checks.h"

namespace gbcompress {
namespace {

std::unique_ptr<TileKernel> kernel(const cuda::Budget& budget = {}) {
  return cuda::make_kernel(cuda::host_module(), {}, budget);
}

class CudaHostTest : public ::testing::TestWithParam<KernelCase> {
 protected:
  void TearDown() override {
    cuda::set_thread_order(cuda::ThreadOrder::kForward);
    EXPECT_EQ(cuda::host_module_allocations(), 0) << "device memory was not freed";
  }
};

TEST_P(CudaHostTest, MatchesTheReferenceFromHostMemory) {
  const KernelNumbers n(GetParam().spec);
  expect_reference(from_host(*kernel(), n), n);
}

TEST_P(CudaHostTest, MatchesTheReferenceOnTheDevice) {
  const KernelNumbers n(GetParam().spec);
  expect_reference(on_device(cuda::host_module(), *kernel(), n), n);
}

TEST_P(CudaHostTest, MatchesTheReferenceInLittleMemory) {
  const KernelNumbers n(GetParam().spec);
  // Two pieces a wave, few workspaces, and one tile at a time on the device.
  const auto k = kernel({.partial = 2 * n.shape.parameters(), .workspace = 1 << 17, .staging = 1});
  expect_reference(from_host(*k, n), n);
}

TEST_P(CudaHostTest, TouchesNothingBesideItsTiles) {
  const KernelNumbers n(GetParam().spec);
  const DeviceFloats values(cuda::host_module(), std::vector<float>(n.gradient.size(), -7));
  const DeviceFloats theta(cuda::host_module(), n.theta);
  const auto tiles = n.tiles(values.data(), 1);
  kernel()->forward(n.shape, theta.span().first(static_cast<std::size_t>(n.shape.parameters())),
                    std::span(tiles).first(1));
  std::vector<float> got = values.values();
  EXPECT_NE(got[static_cast<std::size_t>(n.grid.extent(0).offset)], -7);
  const TileExtent e = n.grid.extent(0);
  for (std::int64_t i = 0; i < e.rows; ++i)
    for (std::int64_t j = 0; j < e.cols; ++j)
      for (std::int64_t k = 0; k < n.grid.kernel(); ++k)
        got[static_cast<std::size_t>(e.offset + i * e.row_stride + j * e.col_stride + k)] = -7;
  EXPECT_EQ(got, std::vector<float>(got.size(), -7));
}

/// Threads that touched each other's numbers between two barriers, or a sum whose order depends on
/// who comes first, would show here.
TEST_P(CudaHostTest, SameBitsInAnyOrderOfThreads) {
  const KernelNumbers n(GetParam().spec);
  const auto k = kernel();
  const KernelResults first = from_host(*k, n);
  for (const auto order : {cuda::ThreadOrder::kBackward, cuda::ThreadOrder::kShuffled}) {
    cuda::set_thread_order(order);
    const KernelResults again = from_host(*k, n);
    EXPECT_EQ(first.values, again.values);
    EXPECT_EQ(first.grad, again.grad);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaHostTest, ::testing::ValuesIn(cuda_cases()), cuda_case_name);

}  // namespace
}  // namespace gbcompress
