// The fused kernel on every instruction set that this processor has, against the reference kernel:
// register blocks differ between them, and only the best one runs anywhere else.

#include "gbcompress/bench.h"
#include "gbcompress/error.h"
#include "gnet/fused.h"
#include "support/kernel_cases.h"

namespace gbcompress {
namespace {

class IsaTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      restrict_isa(GetParam());
    } catch (const Error&) {
      GTEST_SKIP() << "this processor has no " << GetParam();
    }
    // Highway may have been built without it; then a lower one stands in.
    if (fused_target_name() != std::string(GetParam()))
      GTEST_SKIP() << "not compiled for " << GetParam();
  }
  ~IsaTest() override { restrict_isa(""); }
};

std::vector<KernelCase> all_cases() {
  auto cases = kernel_cases();
  cases.push_back(kernel_case("many_rows", {130, 140}, {}, 100, 100, {32}));
  cases.push_back(kernel_case("uneven_hidden", {57, 150}, {}, 57, 150, {45}));
  cases.push_back(kernel_case("deep_long", {9, 700}, {}, 9, 700, {30, 10}));
  return cases;
}

TEST_P(IsaTest, WritesTheReferenceWeights) {
  for (const KernelCase& c : all_cases()) {
    const KernelNumbers n(c.spec);
    std::vector<float> expected(n.gradient.size(), -7), got(n.gradient.size(), -7);
    make_reference_kernel()->forward(n.shape, n.theta, n.tiles(expected.data(), 0.37f));
    make_fused_kernel()->forward(n.shape, n.theta, n.tiles(got.data(), 0.37f));
    EXPECT_LT(relative_difference(got, expected), 3e-6) << c.name;
  }
}

TEST_P(IsaTest, AddsTheReferenceGradient) {
  for (const KernelCase& c : all_cases()) {
    const KernelNumbers n(c.spec);
    std::vector<float> expected(n.theta.size(), 0.25f), got(n.theta.size(), 0.25f);
    make_reference_kernel()->backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1.7f), expected);
    make_fused_kernel()->backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1.7f), got);
    EXPECT_LT(relative_difference(got, expected), 3e-5) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, IsaTest,
                         ::testing::Values("SSE2", "SSSE3", "SSE4", "AVX2", "AVX3", "AVX3_DL",
                                           "AVX3_ZEN4", "NEON"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace gbcompress
