// Steps that follow what training samples say, without any training.
#include "statistics/calibrate.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "compress/quality/held_out_split.h"
#include "gbcompress/compress.h"
#include "statistics/norm_correction.h"
#include "support/all_types.h"
#include "support/code_of.h"
#include "support/tensor_importance.h"

namespace gbcompress {
namespace {

/// The same by its definition: every label of every sample, weighted with its probability.
std::vector<double> exact_importance(Model& model, const Dataset& samples) {
  std::vector<double> result(model.tensors().size(), 0);
  model.train(false);
  for (std::int64_t s = 0; s < samples.size(); ++s)
    for (std::int64_t label = 0; label < 10; ++label) {
      for (NamedParameter& p : model.tensors()) p.tensor.mutable_grad() = at::Tensor();
      const at::Tensor log_p = model.forward(samples.range(s, 1).inputs).log_softmax(1);
      log_p[0][label].backward();
      const double probability = std::exp(log_p[0][label].item<double>());
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] += probability / static_cast<double>(samples.size()) *
                     model.tensors()[i].tensor.grad().square().mean().item<double>();
    }
  return result;
}

class Calibrated : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.output = std::filesystem::temp_directory_path() /
                      ("gbc_calibrated_" + std::to_string(::getpid()) + ".gbz");
    options_.overwrite = true;
    options_.bottleneck.mode = WeightMode::kQuantized;
    options_.train.epochs = 0;
    const Registry types = all_types();
    torch::manual_seed(3);
    model_ = build_model("mlp:64-40-10", types);
    GenomicBottleneck raw(model_->tensors(), types, {.mode = WeightMode::kExact});
    train(*model_, raw, data_.train, {.epochs = 40});
    for (const NamedParameter& p : model_->tensors()) values_.push_back(p.tensor.detach().clone());
  }
  void TearDown() override { std::filesystem::remove(options_.output); }
  void restore() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < values_.size(); ++i) model_->tensors()[i].tensor.copy_(values_[i]);
  }
  CompressionReport run(const Data* data) {
    restore();
    return compress(*model_, kInputBytes, data, nullptr, types_, options_);
  }

  static constexpr std::int64_t kInputBytes = 4 * (64 * 40 + 40 + 40 * 10 + 10);
  Registry types_ = all_types();
  Data data_ = open_data("digits");
  std::unique_ptr<Model> model_;
  std::vector<at::Tensor> values_;
  CompressOptions options_;
};

TEST_F(Calibrated, ImportanceIsThatOfItsDefinition) {
  const Dataset samples = calibration_samples(data_.train, 512, 0);
  ASSERT_EQ(samples.size(), 512);
  const std::vector<double> drawn = tensor_importance(*model_, samples, 0);
  const std::vector<double> exact = exact_importance(*model_, samples);
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(drawn[i] / exact[i], 1, 0.25) << model_->tensors()[i].info.name;
  EXPECT_EQ(drawn, tensor_importance(*model_, samples, 0)) << "a seed decides";
  for (const NamedParameter& p : model_->tensors()) EXPECT_FALSE(p.tensor.grad().defined());
}

TEST_F(Calibrated, LosesLessThanTheWeightsAloneAtTheSameSize) {
  options_.target = {.max_bytes = 1600};
  const auto lost = [&](std::int64_t samples) {
    options_.train.rate.calibration = samples;
    restore();
    const at::Tensor before = model_->forward(data_.test.range(0, 179).inputs).log_softmax(1);
    const CompressionReport report = run(&data_);
    EXPECT_TRUE(report.metric);
    EXPECT_TRUE(report.target_met);
    EXPECT_LE(report.output_bytes, 1600);
    EXPECT_GT(report.output_bytes, 1600 * 9 / 10);
    EXPECT_EQ(report.allocation.find("training samples, ") != std::string::npos, samples > 0);
    // compress() leaves the model as the file has it.
    const at::Tensor now = model_->forward(data_.test.range(0, 179).inputs).log_softmax(1);
    return (before.exp() * (before - now)).sum(1).mean().item<double>();
  };
  const double calibrated = lost(512);
  EXPECT_LT(calibrated, 0.5 * lost(0));
}

TEST_F(Calibrated, SameFileTwiceAndAnotherThanWithoutData) {
  options_.target = {.max_bytes = 1400};
  const CompressionReport with = run(&data_);
  EXPECT_EQ(run(&data_).identity, with.identity);
  options_.train.rate.calibration = 0;
  const CompressionReport without = run(&data_);
  EXPECT_EQ(without.allocation, "the weights (data-free)");
  EXPECT_NE(with.identity, without.identity);
}

TEST_F(Calibrated, DropIsSearchedWithoutTraining) {
  options_.target = {.max_drop = 2};
  const CompressionReport report = run(&data_);
  EXPECT_TRUE(report.target_met);
  EXPECT_GT(report.ratio(), 5);
  EXPECT_LT(report.ratio(), 40.5);
  options_.target = {.max_drop = 20};
  EXPECT_GT(run(&data_).ratio(), report.ratio());
  // What is stored is what the search found, whatever it tried last.
  const auto fresh = build_model("mlp:64-40-10", types_);
  load_tensors(*fresh, expand(ArtifactReader::open(options_.output), types_));
  const Dataset held_out = held_out_split(data_.train, options_.train.seed).held_out;
  const double after = evaluate(*fresh, held_out, data_.metric);
  restore();
  EXPECT_LE(evaluate(*model_, held_out, data_.metric) - after, 20);
}

TEST_F(Calibrated, TooFewSamplesAreRefused) {
  const Batch all = data_.train.range(0, data_.train.size());
  const Dataset held_out = held_out_split(data_.train, options_.train.seed).held_out;
  const at::Tensor held = held_out.range(0, 1).inputs;
  const at::Tensor same = (all.inputs.flatten(1) == held.flatten(1)).all(1);
  ASSERT_GE(same.sum().item<std::int64_t>(), 1);
  at::Tensor poisoned = all.inputs.clone();
  poisoned.masked_fill_(same.view({-1, 1}).expand_as(poisoned.flatten(1)).view_as(poisoned), 3e38);
  data_.train = Dataset(poisoned, all.targets);
  options_.target = {.max_bytes = 1600};
  EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kNonFinite);
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(Calibrated, NothingToAimAtIsRefused) {
  EXPECT_EQ(code_of([&] { run(&data_); }), Errc::kUsage);
  options_.train.loss = Loss::kWeights;
  EXPECT_EQ(code_of([&] { run(nullptr); }), Errc::kUsage);
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

class Norms : public ::testing::Test {
 protected:
  Norms() {
    torch::manual_seed(6);
    model_ = build_model("resnet20", types_);
    images_ = torch::randn({128, 3, 32, 32});
    const at::NoGradGuard no_grad;
    for (NamedParameter& p : model_->tensors()) {
      if (p.info.module_type != "BatchNorm2d") continue;
      if (p.info.local_name == "weight") p.tensor.uniform_(0.5, 1.5);
      if (p.info.local_name == "bias") p.tensor.normal_(0, 0.3);
    }
    model_->train(true);
    for (int i = 0; i < 20; ++i) model_->forward(images_);
    model_->train(false);
  }
  Registry types_ = all_types();
  std::unique_ptr<Model> model_;
  at::Tensor images_;
};

TEST_F(Norms, AreLeftAloneWhereNothingChanged) {
  std::vector<at::Tensor> before;
  for (const NamedParameter& p : model_->tensors()) before.push_back(p.tensor.detach().clone());
  const at::Tensor next = (torch::manual_seed(9), torch::rand({4}));
  torch::manual_seed(9);
  const NormCorrection norms(*model_, Dataset(images_, torch::zeros({128}, torch::kLong)));
  EXPECT_EQ(norms.size(), 19u);
  EXPECT_EQ(norms.vectors().size(), 38u);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], model_->tensors()[i].tensor)) << i;
  EXPECT_TRUE(at::equal(torch::rand({4}), next)) << "the program's random numbers go on as before";
  norms.apply(*model_);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::allclose(before[i], model_->tensors()[i].tensor, 1e-3, 1e-4)) << i;
}

TEST_F(Norms, MakeUpForRoundedWeights) {
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = model_->forward(images_);
  const NormCorrection norms(*model_, Dataset(images_, torch::zeros({128}, torch::kLong)));
  for (NamedParameter& p : model_->tensors())
    if (p.info.shape.size() == 4) p.tensor.copy_((p.tensor / 0.1).round() * 0.1);
  const double rounded = (model_->forward(images_) - wanted).square().mean().item<double>();
  norms.apply(*model_);
  const double corrected = (model_->forward(images_) - wanted).square().mean().item<double>();
  EXPECT_LT(corrected, rounded / 2);
}

/// As torch.jit.trace() writes it: the norm never computes as in training.
TEST(TracedNorms, AreCorrected) {
  torch::manual_seed(5);
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("gbc_traced_norms_" + std::to_string(::getpid()) + ".pt");
  {
    torch::jit::Module norm("__torch__.Norm"), net("__torch__.Net");
    norm.register_parameter("weight", torch::rand({6}) + 0.5, false);
    norm.register_parameter("bias", torch::randn({6}), false);
    norm.register_buffer("running_mean", torch::zeros({6}));
    norm.register_buffer("running_var", torch::full({6}, 4.0));
    net.register_parameter("weight", torch::randn({6, 4}), false);
    net.register_module("norm", norm);
    net.define(
        "def forward(self, x):\n  return torch.batch_norm(torch.linear(x, self.weight), "
        "self.norm.weight, self.norm.bias, self.norm.running_mean, self.norm.running_var, False, "
        "0.1, 1e-05, True)\n");
    net.save(file.string());
  }
  const auto model = open_model(file, "", all_types());
  std::filesystem::remove(file);
  const at::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({256, 4}) + 1;
  const at::Tensor wanted = model->forward(x);
  const NormCorrection norms(*model, Dataset(x, torch::zeros({256}, torch::kLong)));
  ASSERT_EQ(norms.size(), 1u);
  for (NamedParameter& p : model->tensors())
    if (p.info.name == "weight") p.tensor.mul_(1.25);  // what a norm can make up for whole
  EXPECT_FALSE(at::allclose(model->forward(x), wanted, 1e-2, 1e-2));
  norms.apply(*model);
  EXPECT_TRUE(at::allclose(model->forward(x), wanted, 1e-4, 1e-4));
}

TEST(NoNorms, NothingIsCorrected) {
  const Registry types = all_types();
  const auto model = build_model("mlp:64-40-10", types);
  const NormCorrection norms(*model, open_data("digits").train);
  EXPECT_EQ(norms.size(), 0u);
  norms.apply(*model);
}

}  // namespace
}  // namespace gbcompress
