#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "learning_task.h"

namespace gbcompress {
namespace {

class QuantizedWeights : public LearningTask {
 protected:
  void SetUp() override {
    options_.mode = WeightMode::kQuantized;
    options_.rate = {.lambda = 6.4e-3, .predictions = 64};
  }

  static torch::nn::Sequential net() {
    torch::manual_seed(1);
    return torch::nn::Sequential(torch::nn::Linear(20, 30), torch::nn::ReLU(),
                                 torch::nn::Linear(30, 5));
  }
};

TEST_F(QuantizedWeights, FileHoldsTheWeightsThatTheModelComputesWith) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  EXPECT_TRUE(bottleneck.layers().empty());
  const double first = step(model, bottleneck);
  double last = first;
  for (int i = 0; i < 150; ++i) last = step(model, bottleneck);
  EXPECT_LT(last, 0.7 * first) << "the task is learnt";
  bottleneck.finish();
  bottleneck.save(path_);
  const auto stored = expand(ArtifactReader::open(path_), registry_);
  const auto expected = named_parameters(*model);
  ASSERT_EQ(stored.size(), expected.size());
  for (std::size_t i = 0; i < stored.size(); ++i)
    EXPECT_TRUE(at::equal(stored[i].tensor, expected[i].tensor.detach())) << i;
  EXPECT_LT(std::filesystem::file_size(path_), 755u * 4 / 4);
}

TEST_F(QuantizedWeights, ALargerLambdaMakesSmallerFiles) {
  std::int64_t bytes[2];
  for (const int large : {0, 1}) {
    auto model = net();
    options_.rate = {.lambda = large ? 0.13 : 6.4e-4, .predictions = 64, .steps = 200};
    GenomicBottleneck bottleneck(*model, registry_, options_);
    for (int i = 0; i < 200; ++i) step(model, bottleneck);
    bottleneck.finish();
    bytes[large] = bottleneck.save(path_, {.overwrite = true});
  }
  EXPECT_LT(bytes[1], bytes[0] * 2 / 3);
}

TEST_F(QuantizedWeights, TrainingGoesOnWithTheSameBits) { expect_the_same_bits(net(), net()); }

TEST_F(QuantizedWeights, RulesMixModes) {
  auto model = net();
  options_.gnet.hidden = {3};
  options_.gnet.tile_weights = 300;
  LayerRule generated, raw;
  generated.match = "0.weight";
  generated.mode = WeightMode::kGenerated;
  raw.match = "2.bias";
  raw.mode = WeightMode::kExact;
  options_.layers = {generated, raw};
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  bottleneck.finish();
  bottleneck.save(path_);
  const ArtifactReader artifact = ArtifactReader::open(path_);
  std::map<std::string, TensorKind> kinds;
  for (const ArtifactTensor& tensor : artifact.tensors()) kinds[tensor.name] = tensor.kind;
  EXPECT_EQ(kinds["0.weight"], TensorKind::kGenerated);
  EXPECT_EQ(kinds["0.bias"], TensorKind::kQuantized);
  EXPECT_EQ(kinds["2.weight"], TensorKind::kQuantized);
  EXPECT_EQ(kinds["2.bias"], TensorKind::kExact);
}

TEST_F(QuantizedWeights, StepsWithoutTrainingSetTheError) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  const at::Tensor before = model->parameters()[0].detach().clone();
  double last = 0;
  for (const double step : {0.001, 0.01, 0.1}) {
    BottleneckIntegers::quantize(bottleneck, step, 0, Quantizer::kNearest);
    EXPECT_GT(BottleneckIntegers::relative_error(bottleneck), last);
    last = BottleneckIntegers::relative_error(bottleneck);
    bottleneck.predict_weights();
    EXPECT_LE((model->parameters()[0].detach() - before).abs().max().item<double>(),
              step * 0.5 * 1.03);
  }
}

TEST_F(QuantizedWeights, GradientThatIsNotFiniteIsRefused) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  for (at::Tensor& p : model->parameters()) p.mutable_grad() = torch::full_like(p, NAN);
  try {
    bottleneck.backward();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kNonFinite);
  }
}

}  // namespace
}  // namespace gbcompress
