// G-nets that are integers while they train.
#include "gbcompress/error.h"
#include "learning_task.h"

namespace gbcompress {
namespace {

struct Case {
  const char* name;
  Generator generator;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class CodedGNets : public LearningTask, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    options_.mode = WeightMode::kGenerated;
    options_.coding = Coding::kCoded;
    options_.rate = {.lambda = 6.4e-5, .predictions = 64, .steps = 200};
    options_.gnet.generator = GetParam().generator;
    options_.gnet.hidden = {4};
    options_.gnet.rank = 2;
    options_.gnet.tile_weights = 400;
    options_.gnet_optimizer.lr = 1e-2;
  }

  static torch::nn::Sequential net() {
    torch::manual_seed(1);
    return torch::nn::Sequential(torch::nn::Linear(20, 30), torch::nn::ReLU(),
                                 torch::nn::Linear(30, 30), torch::nn::ReLU(),
                                 torch::nn::Linear(30, 5));
  }
};

TEST_P(CodedGNets, FileHoldsTheWeightsThatTheModelComputesWith) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  ASSERT_GE(bottleneck.layers().size(), 2u);
  const double first = step(model, bottleneck);
  double last = first;
  for (int i = 1; i < 200; ++i) last = step(model, bottleneck);
  EXPECT_LT(last, first) << "the task is learnt";
  bottleneck.finish();
  bottleneck.save(path_);
  const ArtifactReader artifact = ArtifactReader::open(path_);
  EXPECT_EQ(artifact.tensors()[0].kind, TensorKind::kGenerated);
  EXPECT_EQ(artifact.tensors()[0].coding, Coding::kCoded);
  const auto stored = expand(artifact, registry_);
  const auto expected = named_parameters(*model);
  for (std::size_t i = 0; i < stored.size(); ++i)
    EXPECT_TRUE(at::equal(stored[i].tensor, expected[i].tensor.detach())) << i;

  // A second bottleneck of the same specification takes it up where it was.
  auto other = net();
  GenomicBottleneck taken(*other, registry_, options_);
  taken.load(path_);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(named_parameters(*other)[i].tensor, expected[i].tensor)) << i;
  const at::Tensor before = expected[0].tensor.detach().clone();
  for (int i = 0; i < 50; ++i) step(other, taken);
  taken.finish();
  EXPECT_FALSE(at::equal(named_parameters(*other)[0].tensor, before));
}

TEST_P(CodedGNets, TrainingGoesOnWithTheSameBits) { expect_the_same_bits(net(), net()); }

TEST_P(CodedGNets, ALargerLambdaMakesSmallerGNets) {
  double bits[2] = {0, 0};
  for (const int large : {0, 1}) {
    auto model = net();
    options_.rate = {.lambda = large ? 0.64 : 6.4e-5, .predictions = 64, .steps = 300};
    GenomicBottleneck bottleneck(*model, registry_, options_);
    for (int i = 0; i < 300; ++i) step(model, bottleneck);
    bottleneck.finish();
    bottleneck.save(path_, {.overwrite = true});
    const ArtifactReader artifact = ArtifactReader::open(path_);
    const std::vector<double> all = artifact.tensor_bits();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (has_spec(artifact.tensors()[i].kind)) bits[large] += all[i];
  }
  EXPECT_LT(bits[1], bits[0] * 3 / 4);
}

TEST_P(CodedGNets, FittingLearnsTheWeights) {
  auto model = net();
  {  // weights that positions explain
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : model->parameters())
      if (p.dim() == 2) p.copy_(at::arange(p.size(0)).view({-1, 1}).mul(0.02f).expand_as(p) - 0.2);
  }
  GenomicBottleneck bottleneck(*model, registry_, options_);
  const auto& layer = bottleneck.layers()[0];
  for (int i = 0; i < 600; ++i) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    for (const auto& l : bottleneck.layers())
      l.weights.mutable_grad() = (l.weights.detach() - l.original) * 2;
    bottleneck.backward(Gradients::kAlike);
    bottleneck.step();
  }
  bottleneck.finish();
  const double error = (layer.weights.detach() - layer.original).square().mean().item<double>();
  EXPECT_LT(error, 0.2 * layer.original.var().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, CodedGNets,
                         ::testing::Values(Case{"gnet", Generator::kGNet},
                                           Case{"stochastic", Generator::kStochastic},
                                           Case{"low_rank", Generator::kLowRank}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gbcompress
