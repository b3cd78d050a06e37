// From a model, or none, to a file of integers.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cmath>

#include "gbcompress/compress.h"
#include "gbcompress/error.h"
#include "support/layer_types.h"
#include "train/augment.h"

namespace gbcompress {
namespace {

class QuantizedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    types_.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
    torch::manual_seed(1);
    model_ = build_model("mlp:64-40-10", types_);
    options_.output = std::filesystem::temp_directory_path() /
                      ("gbc_quantized_file_" + std::to_string(::getpid()) + ".gbz");
    options_.overwrite = true;
    options_.bottleneck.mode = WeightMode::kQuantized;
    options_.train.epochs = 20;
  }
  void TearDown() override { std::filesystem::remove(options_.output); }
  CompressionReport run(const Data* data) {
    torch::manual_seed(1);
    model_ = build_model("mlp:64-40-10", types_);
    return compress(*model_, kInputBytes, data, nullptr, types_, options_);
  }
  /// Of the file, beside the model that is compressed without training.
  double stored_error() {
    double error = 0, squares = 0;
    torch::manual_seed(1);
    const auto original = build_model("mlp:64-40-10", types_);
    const auto stored = expand(ArtifactReader::open(options_.output), types_);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const at::Tensor was = original->tensors()[i].tensor.detach();
      error += (stored[i].tensor - was).square().sum().item<double>();
      squares += was.square().sum().item<double>();
    }
    return error / squares;
  }

  static constexpr std::int64_t kInputBytes = 4 * (64 * 40 + 40 + 40 * 10 + 10);
  Registry types_ = test_registry();
  std::unique_ptr<Model> model_;
  CompressOptions options_;
  Data data_ = open_data("digits");
};

TEST_F(QuantizedFile, LambdaTradesBytesForAccuracy) {
  options_.train.rate.lambda = 0.1;
  const CompressionReport large = run(&data_);
  EXPECT_GT(large.after, 90);
  EXPECT_LT(large.output_bytes, kInputBytes / 4);
  const auto fresh = build_model("mlp:64-40-10", types_);
  load_tensors(*fresh, expand(ArtifactReader::open(options_.output), types_));
  EXPECT_DOUBLE_EQ(large.after, evaluate(*fresh, data_.test, data_.metric));
  options_.train.rate.lambda = 1.5;
  const CompressionReport small = run(&data_);
  EXPECT_LT(small.output_bytes, large.output_bytes * 2 / 3);
}

/// What is written is what was trained, so that the last percent of a size may be left over.
TEST_F(QuantizedFile, SizesAreReachedByTraining) {
  for (const std::int64_t bytes : {900, 1600}) {
    options_.target = {.max_bytes = bytes};
    const CompressionReport report = run(&data_);
    EXPECT_TRUE(report.target_met);
    EXPECT_LE(report.output_bytes, bytes);
    EXPECT_GE(report.output_bytes, bytes * 93 / 100);
    EXPECT_GT(report.after, 92);
  }
}

/// A size that only a model of zeros could have: the smallest file with a model in it, and a note.
TEST_F(QuantizedFile, NoSizeIsReachedByACollapsedModel) {
  options_.target = {.max_bytes = 120};
  const CompressionReport report = run(&data_);
  EXPECT_FALSE(report.target_met);
  EXPECT_GT(report.output_bytes, 120);
  EXPECT_GT(report.after, 50) << "chance is 10 %";
  EXPECT_NE(report.target_note.find("the target is 120 bytes, and the file has "),
            std::string::npos)
      << report.target_note;
  EXPECT_NE(report.target_note.find(std::to_string(report.output_bytes)), std::string::npos)
      << report.target_note;
}

/// Quantized by rule alone: planned, searched and chosen as where it is the mode of all.
TEST_F(QuantizedFile, RulesAmongGNetsReachASize) {
  options_.bottleneck.mode = WeightMode::kGenerated;
  LayerRule rule;
  rule.match = model_->tensors()[0].info.name;
  rule.mode = WeightMode::kQuantized;
  options_.bottleneck.layers = {rule};
  options_.target = {.max_bytes = 1900};
  const CompressionReport report = run(&data_);
  EXPECT_TRUE(report.target_met) << report.target_note;
  EXPECT_LE(report.output_bytes, 1900);
  EXPECT_GE(report.output_bytes, 1900 * 97 / 100);
  EXPECT_GT(report.after, 85);
  EXPECT_EQ(ArtifactReader::open(options_.output).tensors()[0].kind, TensorKind::kQuantized);
  options_.train.epochs = 0;
  options_.target = {};
  EXPECT_THROW(run(&data_), Error) << "its steps would be nobody's choice";
}

TEST_F(QuantizedFile, GNetsTrainedAsIntegersDoBetterThanRoundedOnes) {
  options_.bottleneck.mode = WeightMode::kGenerated;
  options_.train.epochs = 40;
  options_.target = {.ratio = 4};
  const CompressionReport rounded = run(&data_);
  options_.bottleneck.coding = Coding::kCoded;
  options_.train.rate.lambda = 0.03;
  const CompressionReport coded = run(&data_);
  EXPECT_LE(coded.output_bytes, kInputBytes / 4);
  EXPECT_GE(coded.output_bytes, kInputBytes / 4 * 80 / 100);
  EXPECT_GT(coded.after, rounded.after);
}

TEST_F(QuantizedFile, SameSeedSameFile) {
  options_.target = {.max_bytes = 1200};
  EXPECT_EQ(run(&data_).identity, run(&data_).identity);
}

TEST_F(QuantizedFile, WithoutDataStepsAreChosenForTheSize) {
  options_.train.loss = Loss::kWeights;
  options_.target = {.ratio = 8};
  const CompressionReport report = run(nullptr);
  EXPECT_FALSE(report.metric) << "not evaluated";
  EXPECT_LE(report.output_bytes, kInputBytes / 8);
  EXPECT_GT(report.output_bytes, kInputBytes / 8 * 9 / 10);
}

TEST_F(QuantizedFile, WithoutDataStepsAreChosenForTheError) {
  options_.train.loss = Loss::kWeights;
  options_.target = {.max_error = 0.01};
  const CompressionReport coarse = run(nullptr);
  EXPECT_LE(stored_error(), 0.01);
  EXPECT_GE(stored_error(), 0.008);
  options_.target = {.max_error = 0.0001};
  EXPECT_GT(run(nullptr).output_bytes, coarse.output_bytes * 3 / 2);
}

TEST_F(QuantizedFile, TheTrellisIsSmallerAtTheSameErrorAndFinerAtTheSameSize) {
  options_.train.loss = Loss::kWeights;
  options_.target = {.max_error = 0.01};
  const std::int64_t trellis = run(nullptr).output_bytes;
  options_.train.rate.quantizer = Quantizer::kNearest;
  const std::int64_t nearest = run(nullptr).output_bytes;
  EXPECT_LT(trellis, nearest * 97 / 100);
  options_.target = {.max_bytes = nearest};
  run(nullptr);
  const double coarse = stored_error();
  options_.train.rate.quantizer = Quantizer::kTrellis;
  EXPECT_LE(run(nullptr).output_bytes, nearest);
  EXPECT_LT(stored_error(), coarse * 0.9);
}

TEST_F(QuantizedFile, ErrorTargetsNeedQuantizedModeAndNoTraining) {
  options_.target = {.max_error = 0.01};
  EXPECT_THROW(run(&data_), Error);
  options_.train.loss = Loss::kWeights;
  for (const double wrong : {0.0, 1.0, -1.0, std::nan("")}) {
    options_.target = {.max_error = wrong};
    EXPECT_THROW(run(nullptr), Error) << wrong;
  }
  options_.target = {.max_error = 0.01};
  options_.bottleneck.mode = WeightMode::kGenerated;
  EXPECT_THROW(run(nullptr), Error);
}

TEST(FoldBatchNorms, KeepTheFunctionAndFreeTwoVectors) {
  Registry types = test_registry();
  types.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
  torch::manual_seed(4);
  const auto model = build_model("resnet20", types);
  for (NamedParameter& p : model->tensors()) {
    const at::NoGradGuard no_grad;
    if (p.info.local_name == "running_mean") p.tensor.normal_(0, 0.5);
    if (p.info.local_name == "running_var") p.tensor.uniform_(0.3, 2);
    if (p.info.module_type == "BatchNorm2d" && p.info.local_name == "weight")
      p.tensor.uniform_(0.5, 1.5);
  }
  model->train(false);
  const at::Tensor images = torch::randn({4, 3, 32, 32});
  const at::NoGradGuard no_grad;
  const at::Tensor before = model->forward(images);
  const FoldedNorms folded = fold_batch_norms(*model);
  EXPECT_EQ(folded.all, 19);
  EXPECT_EQ(folded.eps_unknown, 0);
  EXPECT_TRUE(at::allclose(model->forward(images), before, 1e-3, 1e-3));
  for (const NamedParameter& p : model->tensors())
    if (p.info.local_name == "running_mean" || p.info.local_name == "running_var") {
      EXPECT_EQ(p.tensor.min().item<float>(), p.tensor.max().item<float>()) << p.info.name;
    }
  EXPECT_EQ(fold_batch_norms(*model).all, 19) << "again changes nothing";
  EXPECT_TRUE(at::allclose(model->forward(images), before, 1e-3, 1e-3));
}

TEST(Augmented, MovesAndMirrorsByKeyAlone) {
  const at::Tensor images = torch::rand({50, 2, 6, 5});
  std::vector<std::int64_t> indices(50);
  for (std::size_t i = 0; i < 50; ++i) indices[i] = static_cast<std::int64_t>(3 * i + 1);
  const RandomStream random(5, "augment");
  EXPECT_TRUE(at::equal(augmented(images, indices, 0, false, random), images));
  const at::Tensor moved = augmented(images, indices, 2, true, random);
  int same = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    // Alone it becomes the same as in company, and some shift and mirroring explains it.
    EXPECT_TRUE(at::equal(augmented(images.narrow(0, i, 1).contiguous(),
                                    {indices[static_cast<std::size_t>(i)]}, 2, true, random)[0],
                          moved[i]));
    bool explained = false;
    for (const bool turned : {false, true})
      for (std::int64_t down = -2; down <= 2; ++down)
        for (std::int64_t right = -2; right <= 2; ++right) {
          const at::Tensor rows = (torch::arange(6) + down).clamp(0, 5);
          const at::Tensor columns = (torch::arange(5) + right).clamp(0, 4);
          const at::Tensor source = turned ? images[i].flip(2) : images[i];
          explained |= at::equal(source.index_select(1, rows).index_select(2, columns), moved[i]);
        }
    EXPECT_TRUE(explained) << i;
    same += at::equal(moved[i], images[i]);
  }
  EXPECT_LT(same, 10);
  EXPECT_THROW(augmented(torch::rand({50, 60}), indices, 1, false, random), Error);
}

}  // namespace
}  // namespace gbcompress
