// Work that is large enough to be shared out. (Small tiles run on one thread, whatever is asked.)
#include <ATen/Parallel.h>

#include <mutex>
#include <set>
#include <thread>

#include "support/kernel_cases.h"

namespace gbcompress {
namespace {

class ThreadsTest : public ::testing::Test {
 protected:
  ~ThreadsTest() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(ThreadsTest, ParallelForHasThem) {
  // It is a template of LibTorch's headers: compiled without OpenMP it uses one, silently.
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(ThreadsTest, TheFusedKernelGivesTheSameBitsOnAnyNumber) {
  const auto kernel = make_fused_kernel();
  for (const KernelCase& c : {kernel_case("many tiles", {333, 410}, {}, 100, 100, {32}),
                              kernel_case("one large tile", {700, 310}, {}, 700, 310, {21}),
                              kernel_case("one deep tile", {500, 270}, {}, 500, 270, {30, 10})}) {
    const KernelNumbers n(c.spec);
    std::vector<float> values[4], grads[4];
    for (int run = 0; run < 4; ++run) {
      at::set_num_threads(run == 3 ? 2 : 1 << run);  // 1, 2, 4, and 2 again
      values[run].assign(n.gradient.size(), 0);
      grads[run].assign(n.theta.size(), 0);
      kernel->forward(n.shape, n.theta, n.tiles(values[run].data(), 1));
      kernel->backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1), grads[run]);
    }
    for (int run = 1; run < 4; ++run) {
      EXPECT_EQ(values[0], values[run]) << c.name;
      EXPECT_EQ(grads[0], grads[run]) << c.name;
    }
  }
}

}  // namespace
}  // namespace gbcompress
