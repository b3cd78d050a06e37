// What counts as lost on held-back samples that the original may have learnt.
#include "compress/quality/judge.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace gbcompress {
namespace {

constexpr std::int64_t kTrain = 9000, kJudge = 6000;

/// Answers sample i of `train` with its label but for the first so many percent, and of what is
/// held back likewise. Samples are their own numbers, held-back ones follow.
class Pupil : public Model {
 public:
  Pupil(double wrong_seen, double wrong_held_back)
      : wrong_seen_(wrong_seen), wrong_held_back_(wrong_held_back) {}
  std::string arch() const override { return "pupil"; }
  bool has_forward() const override { return true; }
  at::Tensor forward(const at::Tensor& inputs) override {
    const at::Tensor i = inputs.flatten();
    const at::Tensor wrong = at::where(i < kTrain, i < kTrain * wrong_seen_ / 100,
                                       i - kTrain < kJudge * wrong_held_back_ / 100);
    const at::Tensor score = wrong.to(at::kFloat);  // every label is 0
    return at::stack({1 - score, score}, 1);
  }
  void train(bool) override {}

 private:
  double wrong_seen_, wrong_held_back_;
};

Dataset numbers(std::int64_t first, std::int64_t count) {
  return {torch::arange(first, first + count, torch::kFloat).unsqueeze(1),
          torch::zeros({count}, torch::kLong)};
}

class JudgeTest : public ::testing::Test {
 protected:
  /// @param original  percent that it has wrong, of both
  Judge judge_beside(double original, double reference_seen = 0, Metric metric = Metric::kAccuracy,
                     std::int64_t count = kJudge) {
    Pupil given(original, original), reference(reference_seen, original);
    Judge judge(given, {numbers(0, kTrain), numbers(kTrain, count)}, metric, false, 0);
    judge.take_reference(reference);
    return judge;
  }
  Pupil compressed_{0.8, 1.2};
};

TEST_F(JudgeTest, WhatTheReferenceRemembersIsLostByOthers) {
  EXPECT_NEAR(judge_beside(0).drop(compressed_), 1.2, 1e-6);
}

TEST_F(JudgeTest, MemoryIsSuspectedWhereTheOriginalKnowsWhatItsReferenceLearnt) {
  EXPECT_TRUE(judge_beside(0).may_remember(compressed_, 0.3));
  EXPECT_FALSE(judge_beside(0).may_remember(compressed_, 0.1)) << "within chance";
  EXPECT_FALSE(judge_beside(0, 0, Metric::kAccuracy, 300).may_remember(compressed_, 0.3))
      << "few samples tell nothing";
  EXPECT_FALSE(judge_beside(15).may_remember(compressed_, 0.3))
      << "it has not learnt these data: the reference is much better on them";
  EXPECT_FALSE(judge_beside(0, 0, Metric::kNatsPerChar).may_remember(compressed_, 0.3));
}

TEST_F(JudgeTest, WhatNoTrainingWithoutTheSamplesReachesIsNotCounted) {
  Judge judge = judge_beside(0);
  Pupil relearned(0, 0.9);
  judge.take_relearned(relearned);
  EXPECT_NEAR(judge.drop(compressed_), 0.3, 0.01);
  EXPECT_GT(judge.noise(), 0.1) << "of answers that differ in 0.9 %";
  EXPECT_FALSE(judge.may_remember(compressed_, 0.3)) << "it is known now";
}

TEST_F(JudgeTest, TooLittleTrainingIsNoMemory) {
  Judge judge = judge_beside(0);
  Pupil relearned(0.5, 0.9);
  judge.take_relearned(relearned);
  EXPECT_NEAR(judge.drop(compressed_), 0.8, 0.15) << "a part of what was seen is scored";
}

TEST_F(JudgeTest, AtMostAPointIsPutDownToMemory) {
  Judge judge = judge_beside(0);
  Pupil relearned(0, 7), lost(0, 4);
  judge.take_relearned(relearned);
  EXPECT_NEAR(judge.drop(lost), 4 - Judge::kMostMemory, 0.01);
}

TEST_F(JudgeTest, ARunThatIsTakenUpJudgesAlike) {
  Judge judge = judge_beside(0);
  Pupil relearned(0, 0.9);
  judge.take_relearned(relearned);
  Judge again = judge_beside(3);
  again.set_state(judge.state());
  EXPECT_EQ(again.drop(compressed_), judge.drop(compressed_));
  EXPECT_EQ(again.may_remember(compressed_, 0.3), judge.may_remember(compressed_, 0.3));
}

}  // namespace
}  // namespace gbcompress
