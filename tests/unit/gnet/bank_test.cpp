#include <gtest/gtest.h>
#include <torch/types.h>

#include "gnet/bank.h"
#include "support/kernel_cases.h"

namespace gbcompress {
namespace {

TEST(Bank, InitialisesWeightsNormalAndBiasesZero) {
  const GNetSpec spec = kernel_case("", {100, 100}, {}, 100, 100, {32}).spec;
  const BankShape shape = bank_shape(spec);
  ASSERT_EQ(shape.parameters(), 513);  // 14-32-1: 14 * 32 + 32 + 32 + 1
  at::Tensor theta = at::empty({200, 513});
  initialise_gnets(shape, 3, "fc.weight", theta);
  const at::Tensor weights = theta.narrow(1, 0, 14 * 32);
  const at::Tensor biases = theta.narrow(1, 14 * 32, 32);
  const double n = static_cast<double>(weights.numel());
  // Four standard errors of the mean and of the deviation of N(0, 0.1).
  EXPECT_NEAR(weights.mean().item<double>(), 0, 4 * 0.1 / std::sqrt(n));
  EXPECT_NEAR(weights.std().item<double>(), 0.1, 4 * 0.1 / std::sqrt(2 * n));
  EXPECT_EQ(biases.abs().max().item<float>(), 0);
  EXPECT_EQ(theta.select(1, 512).abs().max().item<float>(), 0);
  EXPECT_GT(theta.narrow(1, 480, 32).abs().min().item<float>(), 0);
}

TEST(Bank, InitialValuesDependOnSeedAndNameAlone) {
  const BankShape shape = bank_shape(kernel_case("", {20, 20}, {}, 10, 10, {8}).spec);
  at::Tensor four = at::empty({4, shape.parameters()}), two = at::empty({2, shape.parameters()});
  initialise_gnets(shape, 5, "a", four);
  initialise_gnets(shape, 5, "a", two);
  EXPECT_TRUE(at::equal(four.narrow(0, 0, 2), two));
  initialise_gnets(shape, 5, "b", two);
  EXPECT_FALSE(at::equal(four.narrow(0, 0, 2), two));
  initialise_gnets(shape, 6, "a", two);
  EXPECT_FALSE(at::equal(four.narrow(0, 0, 2), two));
}

TEST(Bank, KeyTellsShapesApart) {
  const GNetSpec spec = kernel_case("", {20, 20}, {}, 10, 10, {8}).spec;
  GNetSpec other = spec;
  other.shape = {40, 10};
  other.output_scale = 9;
  EXPECT_EQ(bank_key(spec), bank_key(other)) << "equal g-nets share a bank whatever the tensor";
  other.hidden = {8, 8};
  EXPECT_NE(bank_key(spec), bank_key(other));
  other = spec;
  other.row_code = Encoding::kGray;
  EXPECT_NE(bank_key(spec), bank_key(other));
}

}  // namespace
}  // namespace gbcompress
