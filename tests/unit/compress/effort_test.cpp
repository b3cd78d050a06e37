// Which method a target size takes, and what counts as a measurable quality drop.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cmath>

#include "compress/quality/drop_estimate.h"
#include "compress/quality/held_out.h"
#include "gbcompress/compress.h"
#include "model/model_snapshot.h"
#include "support/all_types.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

class EffortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.output = std::filesystem::temp_directory_path() /
                      ("gbc_effort_" + std::to_string(::getpid()) + ".gbz");
    options_.overwrite = true;
    options_.bottleneck.mode = WeightMode::kQuantized;
    options_.train.epochs = 2;
    torch::manual_seed(3);
    model_ = build_model("mlp:64-40-10", types_);
    GenomicBottleneck exact(model_->tensors(), types_, {.mode = WeightMode::kExact});
    train(*model_, exact, data_.train, {.epochs = 40});
    given_.emplace(*model_);
  }
  void TearDown() override { std::filesystem::remove(options_.output); }
  CompressionReport run(std::optional<Effort> effort, std::int64_t bytes) {
    given_->restore(*model_);
    options_.effort = effort;
    options_.target = {.max_bytes = bytes};
    return compress(*model_, kInputBytes, &data_, nullptr, types_, options_);
  }

  static constexpr std::int64_t kInputBytes = 4 * (64 * 40 + 40 + 40 * 10 + 10);
  /// Sizes at which the data-free file answers as the model does, and at which no method does.
  static constexpr std::int64_t kEasy = 4000, kHard = 330;
  Registry types_ = all_types();
  Data data_ = open_data("digits");
  std::unique_ptr<Model> model_;
  std::optional<ModelSnapshot> given_;
  CompressOptions options_;
};

TEST_F(EffortTest, AnEasySizeIsDataFreeAndAHardOneTrained) {
  const CompressionReport easy = run(Effort::kBalanced, kEasy);
  EXPECT_EQ(easy.method, "data-free");
  EXPECT_EQ(easy.attempts, 0);
  EXPECT_LE(easy.output_bytes, kEasy);
  EXPECT_NE(easy.method_reason.find("within one standard error"), std::string::npos)
      << easy.method_reason;
  EXPECT_EQ(easy.tensors.size(), 4u);
  EXPECT_GT(easy.weight_error, 0);
  const CompressionReport hard = run(Effort::kBalanced, kHard);
  EXPECT_EQ(hard.method, "trained");
  EXPECT_GT(hard.attempts, 0);
  EXPECT_NE(hard.method_reason.find("the calibrated file: "), std::string::npos)
      << hard.method_reason;
  // Cheaper methods leave nothing behind: the model, the data and the options are those of `max`.
  const CompressionReport most = run(Effort::kMax, kHard);
  EXPECT_EQ(most.method, "trained");
  EXPECT_EQ(most.method_reason, "");
  EXPECT_EQ(most.identity, hard.identity);
}

TEST_F(EffortTest, BetweenThemIsCalibratedAsWithoutEpochs) {
  std::optional<CompressionReport> found;
  for (std::int64_t bytes = 1400; bytes >= 500 && !found; bytes -= 75) {
    const CompressionReport report = run(Effort::kFast, bytes);
    EXPECT_LE(report.output_bytes, bytes);
    const bool of_choice = report.method_reason.find("the data-free file: ") != std::string::npos;
    if (report.method == "calibrated" && of_choice) found = report;
  }
  ASSERT_TRUE(found);
  options_.train.epochs = 0;
  const CompressionReport without = run({}, found->output_bytes);
  EXPECT_EQ(without.method, "calibrated");
  EXPECT_EQ(without.method_reason, "") << "there was no choice";
}

TEST_F(EffortTest, FastNeverTrainsAndNeitherDoesARunOutOfTime) {
  const CompressionReport fast = run(Effort::kFast, kHard);
  EXPECT_EQ(fast.method, "calibrated");
  EXPECT_EQ(fast.attempts, 0);
  EXPECT_NE(fast.method_reason.find("effort fast never trains"), std::string::npos);
  options_.minutes = 1e-9;
  const CompressionReport late = run(Effort::kBalanced, kHard);
  EXPECT_EQ(late.method, "data-free");
  EXPECT_NE(late.method_reason.find("no time is left to calibrate"), std::string::npos);
}

TEST_F(EffortTest, TheFileIsTheOneThatWasCompared) {
  const CompressionReport report = run(Effort::kFast, 1500);
  const auto fresh = build_model("mlp:64-40-10", types_);
  load_tensors(*fresh, expand(ArtifactReader::open(options_.output), types_));
  EXPECT_DOUBLE_EQ(report.after, evaluate(*fresh, data_.test, data_.metric));
}

TEST_F(EffortTest, GeneratedWeightsAndNewModelsRefuseIt) {
  options_.bottleneck.mode = WeightMode::kGenerated;
  EXPECT_EQ(code_of([&] { run(Effort::kBalanced, 2000); }), Errc::kUsage);
  options_.bottleneck.mode = WeightMode::kQuantized;
  options_.from_scratch = true;
  EXPECT_EQ(code_of([&] { run(Effort::kFast, 2000); }), Errc::kUsage);
}

TEST(Effort, TheDefaultDependsOnTargetAndChoices) {
  CompressOptions options;
  options.bottleneck.mode = WeightMode::kQuantized;
  options.choose = {true, true, true, true, true, true, true, true};
  EXPECT_EQ(effort_of(options), Effort::kMax) << "no target size";
  options.target = {.ratio = 20};
  EXPECT_EQ(effort_of(options), Effort::kBalanced);
  EXPECT_TRUE(tries_cheaper_methods(options));
  EXPECT_TRUE(may_train(options));
  options.choose.epochs = false;
  EXPECT_EQ(effort_of(options), Effort::kMax) << "epochs were given";
  options.effort = Effort::kFast;
  EXPECT_FALSE(may_train(options));
  EXPECT_TRUE(tries_cheaper_methods(options));
  LayerRule generated;
  generated.match = "*";
  generated.mode = WeightMode::kGenerated;
  options.bottleneck.layers = {generated};
  EXPECT_FALSE(tries_cheaper_methods(options));
}

TEST(HeldOutDrop, AccuracyHasTheBinomialErrorAtLeastOneSample) {
  EXPECT_NEAR(binomial_error(90, 400), 1.5, 1e-12);
  EXPECT_NEAR(binomial_error(98, 10'000), 0.14, 1e-12);
  EXPECT_DOUBLE_EQ(binomial_error(100, 50), 2);
  EXPECT_DOUBLE_EQ(binomial_error(0, 50), 2);
  const QualityDrop unknown{std::nan(""), 1};
  EXPECT_TRUE(unknown.measurable());
  EXPECT_FALSE((QualityDrop{1, 1}.measurable()));
  EXPECT_FALSE((QualityDrop{-5, 1}.measurable()));
  EXPECT_TRUE((QualityDrop{1.01, 1}.measurable()));
}

}  // namespace
}  // namespace gbcompress
