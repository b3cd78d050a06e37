/// Units of learning rates and weight decays of difference target propagation.
#include "plugin/dtp_training.h"

namespace gbcompress {
namespace {

using test::Training;

constexpr double kBeta = 0.7;
// Of simple-vgg:4, otherwise as samples/08_reproduce.
const std::string kPublished =
    "inverse=published K=2,3,2,3,2 sigma=0.4,0.4,0.2,0.2,0.08 "
    "feedback_lr=0.0001,0.00035,0.008,0.008,0.18 momentum=0.9 beta=0.7";

at::Tensor all_parameters(const Training& run) {
  std::vector<at::Tensor> parts;
  for (const NamedParameter& p : run.model->tensors())
    if (p.trainable) parts.push_back(p.tensor.detach().flatten().to(torch::kDouble));
  return at::cat(parts);
}

/// Change of all parameters in four steps of the program's SGD with the published numbers.
at::Tensor change_by_ours(double lr, double decay) {
  BottleneckOptions weights = test::all_plain();
  weights.plain_optimizer = {
      .lr = lr, .momentum = 0.9, .weight_decay = decay, .optimizer = OptimizerRule::kSgd};
  Training run("simple-vgg:4", kPublished, {3, 32, 32}, "dtp", weights);
  const at::Tensor before = all_parameters(run);
  for (int i = 0; i < 4; ++i) {
    run.step();
    run.bottleneck->backward(Gradients::kSame);
    run.bottleneck->step();
  }
  return all_parameters(run) - before;
}

/// The same by PyTorch's SGD on gradients of |s - t|^2 / 2 beta, those that AdamW takes.
at::Tensor change_by_torch(double lr, double decay) {
  Training run("simple-vgg:4", kPublished, {3, 32, 32});
  std::vector<at::Tensor> parameters;
  for (const NamedParameter& p : run.model->tensors())
    if (p.trainable) parameters.push_back(p.tensor);
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr).momentum(0.9).weight_decay(decay));
  const at::Tensor before = all_parameters(run);
  for (int i = 0; i < 4; ++i) {
    run.step();
    sgd.step();
  }
  return all_parameters(run) - before;
}

TEST(DtpUnits, RateAndDecayOfSgdAreThePublishedOnes) {
  const double decay = 1e-4;
  for (const double lr : {0.08, 0.05, 0.01}) {  // those of the files in samples/08_reproduce
    const at::Tensor ours = change_by_ours(lr, decay);
    const double size = ours.norm().item<double>();
    const auto distance = [&](double their_lr, double their_decay) {
      return (ours - change_by_torch(their_lr, their_decay)).norm().item<double>() / size;
    };
    EXPECT_LT(distance(lr * kBeta, decay / kBeta), 1e-4) << lr;
    EXPECT_GT(distance(lr, decay), 0.1) << "rates of another unit make other steps, " << lr;
  }
  // A decay large enough to matter: its unit is the published one too.
  const at::Tensor ours = change_by_ours(0.05, 0.5);
  const double size = ours.norm().item<double>();
  EXPECT_LT((ours - change_by_torch(0.05 * kBeta, 0.5 / kBeta)).norm().item<double>() / size, 1e-4);
  EXPECT_GT((ours - change_by_torch(0.05 * kBeta, 0.5)).norm().item<double>() / size, 0.1);
}

/// With transposed weights the gradient is that of backpropagation: beta times it where SGD steps,
/// itself where g-nets generate the weights.
TEST(DtpUnits, OnlyWhatSgdStepsIsMultipliedByBeta) {
  BottleneckOptions weights;
  weights.min_elements = 1000;  // 0.weight and 2.weight have g-nets
  weights.gnet.tile_weights = 1000;
  weights.gnet.hidden = {4};
  weights.plain_optimizer.optimizer = OptimizerRule::kSgd;
  BottleneckOptions adamw = weights;
  adamw.plain_optimizer.optimizer = OptimizerRule::kAdamW;
  const std::string local = "symmetric=1 K=0 diagnose=1 beta=0.25";
  Training backprop("mlp:64-48-32-10", "", {64}, "backprop", weights),
      with_sgd("mlp:64-48-32-10", local, {64}, "dtp", weights),
      with_adamw("mlp:64-48-32-10", local, {64}, "dtp", adamw);
  ASSERT_EQ(with_sgd.bottleneck->layers().size(), 2u);
  ASSERT_EQ(with_sgd.bottleneck->sgd_parameters().size(), 4u);  // 4.weight and three biases
  EXPECT_TRUE(with_adamw.bottleneck->sgd_parameters().empty());
  backprop.step();
  const auto cosine = with_sgd.step().more.at("cosine.0");
  EXPECT_GT(cosine, 0.9999);
  with_adamw.step();
  for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"}) {
    const bool generated = std::string(name) == "0.weight" || std::string(name) == "2.weight";
    const at::Tensor exact = backprop.gradient(name);
    EXPECT_TRUE(at::allclose(with_sgd.gradient(name), exact * (generated ? 1 : 0.25), 1e-3, 1e-7))
        << name;
    EXPECT_TRUE(at::allclose(with_adamw.gradient(name), exact, 1e-3, 1e-7)) << name;
  }
}

TEST(DtpUnits, EarlierGradientsAreAddedAsTheyAre) {
  BottleneckOptions weights = test::all_plain();
  weights.plain_optimizer.optimizer = OptimizerRule::kSgd;
  Training run("mlp:64-48-32-10", "symmetric=1 K=0 beta=0.25", {64}, "dtp", weights);
  run.step();
  const at::Tensor once = run.gradient("0.weight");
  run.strategy->step(run.batch);
  EXPECT_TRUE(at::allclose(run.gradient("0.weight"), 2 * once, 1e-5, 1e-8));
}

}  // namespace
}  // namespace gbcompress
