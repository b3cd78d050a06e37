// Calibrated files of recurrent models and of models with batch norms.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gbcompress/compress.h"
#include "gbcompress/train.h"
#include "model/model_snapshot.h"
#include "support/all_types.h"
#include "support/listener.h"

namespace gbcompress {
namespace {

using testing::Listener;
using testing::NormedListener;

class CalibratedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.output = std::filesystem::temp_directory_path() /
                      ("gbc_calibrated_files_" + std::to_string(::getpid()) + ".gbz");
    options_.overwrite = true;
    options_.bottleneck.mode = WeightMode::kQuantized;
    options_.train.epochs = 0;
    options_.tell = [&](const std::string& line) { lines_.push_back(line); };
    given_.emplace(model_);
  }
  void TearDown() override { std::filesystem::remove(options_.output); }
  static Data made(Model& model) {
    const at::NoGradGuard no_grad;
    // Inputs that are alike: moments matter.
    const at::Tensor mixed = at::randn({4, 24});
    const auto dataset = [&](std::int64_t count) {
      const at::Tensor x =
          at::randn({count, 12, 4}).matmul(mixed) + 0.1 * at::randn({count, 12, 24});
      return Dataset(x, model.forward(x));
    };
    return {.spec = "made",
            .train = dataset(200),
            .test = dataset(100),
            .metric = Metric::kOutputError};
  }
  CompressionReport run() {
    lines_.clear();
    given_->restore(model_);
    return compress(model_, kInputBytes, &data_, nullptr, types_, options_);
  }
  /// Lines about files under moments.
  std::vector<std::string> with_feedback() const {
    std::vector<std::string> found;
    for (const std::string& line : lines_)
      if (line.find("error feedback") != std::string::npos) found.push_back(line);
    return found;
  }

  static constexpr std::int64_t kInputBytes = 4 * (256 * 24 + 256 * 64 + 512 + 8 * 64);
  Listener model_{24, 64, 8, 0.3};
  std::optional<ModelSnapshot> given_;
  Registry types_ = all_types();
  Data data_ = made(model_);
  CompressOptions options_;
  std::vector<std::string> lines_;
};

TEST_F(CalibratedFilesTest, ARecurrentModelKeepsMoreUnderJointMoments) {
  options_.target.ratio = 10;
  const CompressionReport report = run();
  EXPECT_GE(with_feedback().size(), 3u);
  EXPECT_EQ(report.method, "calibrated");
  EXPECT_NE(report.allocation.find("error feedback"), std::string::npos) << report.allocation;
  EXPECT_LE(report.output_bytes, kInputBytes / 10);
  EXPECT_EQ(report.tensors.size(), 5u);
  EXPECT_GT(report.weight_error, 0);
  // The model is that of the file.
  const double again = evaluate(model_, data_.test, data_.metric);
  EXPECT_DOUBLE_EQ(report.after, again);
  EXPECT_LT(again, 0.1);
}

TEST_F(CalibratedFilesTest, TheSameFileTwice) {
  options_.target.ratio = 8;
  EXPECT_EQ(run().identity, run().identity);
}

TEST_F(CalibratedFilesTest, ADropIsReachedWithThem) {
  options_.target.max_drop = 0.05;
  const CompressionReport report = run();
  EXPECT_GE(with_feedback().size(), 3u);
  EXPECT_TRUE(report.target_met) << report.target_note;
  EXPECT_LT(report.after, 0.08);
  EXPECT_LT(report.output_bytes, kInputBytes / 6);
}

TEST_F(CalibratedFilesTest, NoTimeNoFurtherFile) {
  options_.target.ratio = 10;
  options_.minutes = 1e-6;
  const CompressionReport report = run();
  EXPECT_EQ(with_feedback().size(), 1u);
  EXPECT_LE(report.output_bytes, kInputBytes / 10);
}

TEST_F(CalibratedFilesTest, NormsBesideRecurrentLayersAreCorrected) {
  NormedListener model(24, 64, 8, 0.3);
  const Data data = made(model);
  const ModelSnapshot given(model);
  options_.target.ratio = 10;
  std::string identity;
  for (int run = 0; run < 2; ++run) {
    given.restore(model);
    lines_.clear();
    const CompressionReport report = compress(model, kInputBytes, &data, nullptr, types_, options_);
    EXPECT_GE(with_feedback().size(), 3u);
    EXPECT_EQ(report.corrected_norms, 1);
    EXPECT_NE(report.allocation.find("error feedback"), std::string::npos) << report.allocation;
    EXPECT_LE(report.output_bytes, kInputBytes / 10);
    EXPECT_DOUBLE_EQ(report.after, evaluate(model, data.test, data.metric));
    EXPECT_LT(report.after, 0.1);
    if (run == 0) identity = report.identity;
    EXPECT_EQ(report.identity, identity);
  }
}

}  // namespace
}  // namespace gbcompress
