// The quality drop on held-out samples that the original may be overfit to.
#include "compress/quality/drop_estimate.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace gbcompress {
namespace {

constexpr std::int64_t kTrain = 9000, kHeldOut = 6000;

/// Answers sample i of `train` with its label but for the first so many percent, and of what is
/// held out likewise. Samples are their own numbers, held-out ones follow.
class Pupil : public Model {
 public:
  Pupil(double wrong_seen, double wrong_held_out)
      : wrong_seen_(wrong_seen), wrong_held_out_(wrong_held_out) {}
  std::string arch() const override { return "pupil"; }
  bool has_forward() const override { return true; }
  at::Tensor forward(const at::Tensor& inputs) override {
    const at::Tensor i = inputs.flatten();
    const at::Tensor wrong = at::where(i < kTrain, i < kTrain * wrong_seen_ / 100,
                                       i - kTrain < kHeldOut * wrong_held_out_ / 100);
    const at::Tensor score = wrong.to(at::kFloat);  // every label is 0
    return at::stack({1 - score, score}, 1);
  }
  void train(bool) override {}

 private:
  double wrong_seen_, wrong_held_out_;
};

Dataset numbers(std::int64_t first, std::int64_t count) {
  return {torch::arange(first, first + count, torch::kFloat).unsqueeze(1),
          torch::zeros({count}, torch::kLong)};
}

class DropEstimateTest : public ::testing::Test {
 protected:
  /// @param original  percent that it has wrong, of both
  DropEstimate estimate_beside(double original, double baseline_seen = 0,
                               Metric metric = Metric::kAccuracy, std::int64_t count = kHeldOut) {
    Pupil given(original, original), baseline(baseline_seen, original);
    DropEstimate estimate(given, {numbers(0, kTrain), numbers(kTrain, count)}, metric, false, 0);
    estimate.take_baseline(baseline);
    return estimate;
  }
  Pupil compressed_{0.8, 1.2};
};

TEST_F(DropEstimateTest, TheBaselineIsWhatDropsAreMeasuredFrom) {
  EXPECT_NEAR(estimate_beside(0).drop(compressed_), 1.2, 1e-6);
}

TEST_F(DropEstimateTest, OverfitIsSuspectedWhereTheOriginalIsAsGoodAsItsBaselineOnItsData) {
  EXPECT_TRUE(estimate_beside(0).may_leak(compressed_, 0.3));
  EXPECT_FALSE(estimate_beside(0).may_leak(compressed_, 0.1)) << "within chance";
  EXPECT_FALSE(estimate_beside(0, 0, Metric::kAccuracy, 300).may_leak(compressed_, 0.3))
      << "few samples tell nothing";
  EXPECT_FALSE(estimate_beside(15).may_leak(compressed_, 0.3))
      << "it has not learnt these data: the baseline is much better on them";
  EXPECT_FALSE(estimate_beside(0, 0, Metric::kNatsPerChar).may_leak(compressed_, 0.3));
}

TEST_F(DropEstimateTest, WhatNoTrainingWithoutTheSamplesReachesIsNotCounted) {
  DropEstimate estimate = estimate_beside(0);
  Pupil relearned(0, 0.9);
  estimate.take_relearned(relearned);
  EXPECT_NEAR(estimate.drop(compressed_), 0.3, 0.01);
  EXPECT_GT(estimate.noise(), 0.1) << "of answers that differ in 0.9 %";
  EXPECT_FALSE(estimate.may_leak(compressed_, 0.3)) << "it is known now";
}

TEST_F(DropEstimateTest, TooLittleTrainingIsNoOverfit) {
  DropEstimate estimate = estimate_beside(0);
  Pupil relearned(0.5, 0.9);
  estimate.take_relearned(relearned);
  EXPECT_NEAR(estimate.drop(compressed_), 0.8, 0.15) << "a part of what was seen is scored";
}

TEST_F(DropEstimateTest, AtMostAPointCountsAsOverfit) {
  DropEstimate estimate = estimate_beside(0);
  Pupil relearned(0, 7), collapsed(0, 4);
  estimate.take_relearned(relearned);
  EXPECT_NEAR(estimate.drop(collapsed), 4 - DropEstimate::kMostLeakage, 0.01);
}

TEST_F(DropEstimateTest, AResumedRunMeasuresAlike) {
  DropEstimate estimate = estimate_beside(0);
  Pupil relearned(0, 0.9);
  estimate.take_relearned(relearned);
  DropEstimate again = estimate_beside(3);
  again.set_state(estimate.state());
  EXPECT_EQ(again.drop(compressed_), estimate.drop(compressed_));
  EXPECT_EQ(again.may_leak(compressed_, 0.3), estimate.may_leak(compressed_, 0.3));
}

}  // namespace
}  // namespace gbcompress
