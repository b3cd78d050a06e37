// Every kernel against the reference kernel, values and gradients, on all shapes of kernel_cases.h.
#include <ATen/Parallel.h>

#include <algorithm>

#include "support/kernel_cases.h"

namespace gbcompress {
namespace {

struct KernelMaker {
  const char* name;
  std::unique_ptr<TileKernel> (*make)();
};
const KernelMaker kKernels[] = {{"fused", &make_fused_kernel}};

class KernelTest : public ::testing::TestWithParam<std::tuple<std::size_t, KernelCase>> {
 protected:
  const TileKernel& kernel() {
    if (!kernel_) kernel_ = kKernels[std::get<0>(GetParam())].make();
    return *kernel_;
  }
  const GNetSpec& spec() const { return std::get<1>(GetParam()).spec; }

 private:
  std::unique_ptr<TileKernel> kernel_;
};

TEST_P(KernelTest, WritesTheReferenceWeights) {
  const KernelNumbers n(spec());
  std::vector<float> expected(n.gradient.size(), -7), got(n.gradient.size(), -7);
  make_reference_kernel()->forward(n.shape, n.theta, n.tiles(expected.data(), 0.37f));
  kernel().forward(n.shape, n.theta, n.tiles(got.data(), 0.37f));
  EXPECT_LT(relative_difference(got, expected), 3e-6);
  EXPECT_NE(expected[0], -7.0f) << "the reference kernel wrote nothing";
}

TEST_P(KernelTest, AddsTheReferenceGradient) {
  const KernelNumbers n(spec());
  std::vector<float> expected(n.theta.size(), 0.25f), got(n.theta.size(), 0.25f);
  make_reference_kernel()->backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1.7f), expected);
  kernel().backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1.7f), got);
  EXPECT_LT(relative_difference(got, expected), 2e-5);
}

TEST_P(KernelTest, DeviationsAndTheirGradientsAreTheReferences) {
  if (spec().generator != Generator::kStochastic) return;  // others have none
  const KernelNumbers n(spec());
  std::vector<float> weights(n.gradient.size()), logs[2], grads[2];
  std::vector<float> log_gradient = n.gradient;
  std::reverse(log_gradient.begin(), log_gradient.end());
  const auto reference = make_reference_kernel();
  for (const bool fused : {false, true}) {
    const TileKernel& one = fused ? kernel() : *reference;
    logs[fused].assign(n.gradient.size(), -7);
    grads[fused].assign(n.theta.size(), 0.25f);
    auto targets = n.tiles(weights.data(), 0.37f);
    for (TileTarget& tile : targets)
      tile.log_deviation = logs[fused].data() + (tile.data - weights.data());
    one.forward(n.shape, n.theta, targets);
    auto sources = n.tiles(n.gradient.data(), 1.7f);
    for (TileSource& tile : sources)
      tile.log_deviation = log_gradient.data() + (tile.data - n.gradient.data());
    one.backward(n.shape, n.theta, sources, grads[fused]);
  }
  EXPECT_EQ(std::count(logs[0].begin(), logs[0].end(), -7.0f), 0);
  EXPECT_LT(relative_difference(logs[1], logs[0]), 3e-6);
  EXPECT_LT(relative_difference(grads[1], grads[0]), 2e-5);
}

TEST_P(KernelTest, TouchesNothingBesideItsTiles) {
  const KernelNumbers n(spec());
  // Only the first tile is asked for; every position it does not own must keep its value.
  std::vector<float> values(n.gradient.size(), -7), owned(n.gradient.size(), 0);
  const auto all = n.tiles(values.data(), 1);
  kernel().forward(n.shape, {n.theta.data(), static_cast<std::size_t>(n.shape.parameters())},
                   {all.data(), 1});
  const TileExtent e = n.grid.extent(0);
  for (std::int64_t i = 0; i < e.rows; ++i)
    for (std::int64_t j = 0; j < e.cols; ++j)
      for (std::int64_t k = 0; k < n.grid.kernel(); ++k)
        owned[static_cast<std::size_t>(e.offset + i * e.row_stride + j * e.col_stride + k)] = 1;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (owned[i] == 0) {
      ASSERT_EQ(values[i], -7.0f) << "at " << i;
    }
}

TEST_P(KernelTest, GivesTheSameBitsForOneTwoAndFourThreads) {
  const KernelNumbers n(spec());
  std::vector<float> values[3], grads[3];
  const int threads = at::get_num_threads();
  for (int run = 0; run < 3; ++run) {
    at::set_num_threads(1 << run);
    values[run].assign(n.gradient.size(), 0);
    grads[run].assign(n.theta.size(), 0);
    kernel().forward(n.shape, n.theta, n.tiles(values[run].data(), 1));
    kernel().backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1), grads[run]);
  }
  at::set_num_threads(threads);
  for (int run = 1; run < 3; ++run) {
    EXPECT_EQ(values[0], values[run]);
    EXPECT_EQ(grads[0], grads[run]);
  }
}

std::string case_name(const ::testing::TestParamInfo<KernelTest::ParamType>& info) {
  return std::string(kKernels[std::get<0>(info.param)].name) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest,
                         ::testing::Combine(::testing::Range<std::size_t>(0, std::size(kKernels)),
                                            ::testing::ValuesIn(kernel_cases())),
                         case_name);
}  // namespace
}  // namespace gbcompress
