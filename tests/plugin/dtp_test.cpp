/// Difference target propagation through the shipped plugin: how near its gradients are to
/// backpropagation's, and layers that bring their own inverse.
#include <map>

#include "gbcompress/train.h"
#include "plugin/dtp_training.h"

namespace gbcompress {
namespace {

using test::expect_has;
using test::host;
using test::Training;
using test::usage_refusal;

double cosine(const at::Tensor& a, const at::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

/// Transposed weights make the targets gradients, whatever beta is.
void expect_symmetric_is_backprop(const std::string& arch, std::vector<std::int64_t> picture,
                                  bool train = true) {
  Training exact(arch, "", picture, "backprop"), local(arch, "symmetric=1 K=0 beta=0.7", picture);
  exact.model->train(train);
  local.model->train(train);
  EXPECT_EQ(exact.step().loss, local.step().loss);
  for (const NamedParameter& p : exact.model->tensors()) {
    if (!p.trainable) continue;
    const at::Tensor wanted = exact.gradient(p.info.name), given = local.gradient(p.info.name);
    EXPECT_GT(cosine(wanted, given), 0.9999) << arch << " " << p.info.name;
    EXPECT_NEAR((given.norm() / wanted.norm()).item<double>(), 1, 1e-3)
        << arch << " " << p.info.name;
  }
}

TEST(Dtp, SymmetricFeedbackGivesTheGradientsOfBackprop) {
  expect_symmetric_is_backprop("mlp:64-48-32-10", {64});
  expect_symmetric_is_backprop("lenet5", {1, 28, 28});
  expect_symmetric_is_backprop("lenet-dtp", {1, 28, 28});
  expect_symmetric_is_backprop("resnet18:10:plain", {3, 32, 32});
  expect_symmetric_is_backprop("simple-vgg:4", {3, 32, 32});
}

TEST(Dtp, ResidualBlocksGoBackThroughBothBranches) {
  // Among the blocks are two that halve rows and columns and pad channels. Batch norms compute with
  // their running statistics: a batch's own depend on its inputs, which targets leave out.
  expect_symmetric_is_backprop("resnet20", {3, 32, 32}, /*train=*/false);
}

TEST(Dtp, BatchStatisticsSeparateTheGradientsFromThoseOfBackprop) {
  // A batch's own statistics depend on the inputs of the norm; the way back leaves that out. Only
  // the last stage, whose target comes from the loss, has the gradient of backpropagation.
  Training exact("resnet20", "", {3, 32, 32}, "backprop"),
      local("resnet20", "symmetric=1 K=0", {3, 32, 32});
  EXPECT_EQ(exact.step().loss, local.step().loss);
  double least = 1;
  for (const NamedParameter& p : exact.model->tensors()) {
    if (!p.trainable) continue;
    const double near = cosine(exact.gradient(p.info.name), local.gradient(p.info.name));
    EXPECT_TRUE(std::isfinite(near)) << p.info.name;
    if (p.info.name.starts_with("fc.") || p.info.name.starts_with("linear.")) {
      EXPECT_GT(near, 0.9999) << p.info.name;
    }
    least = std::min(least, near);
  }
  std::printf("resnet20 in training: least cosine %.4f\n", least);
  EXPECT_LT(least, 0.99);
}

TEST(Dtp, ShardsNeedStatisticsOfTheWholeBatch) {
  Training run("resnet20", "K=1 shards=2", {3, 32, 32});
  expect_has(usage_refusal("shards", [&] { run.step(); }),
             {"shards is 2", "batch norm", "leave shards at 1"});
  run.model->train(false);
  EXPECT_NO_THROW(run.step());
  Training plain("simple-vgg:2", "K=1 shards=2", {3, 32, 32});
  EXPECT_NO_THROW(plain.step());
}

TEST(Dtp, FeedbackLearnsTheGradientsOfBackprop) {
  Training run("lenet5", "K=20,30,30 diagnose=1", {1, 28, 28});
  std::map<std::string, double> first, last;
  for (int phase = 0; phase < 20; ++phase) {
    last = run.step().more;
    if (phase == 0) first = last;
  }
  const std::map<std::string, double> wanted = {
      {"conv1", 0.56}, {"conv2", 0.81}, {"fc1", 0.87}, {"fc2", 0.9999}};
  for (const auto& [stage, cosine] : wanted) {
    EXPECT_GE(last.at("cosine." + stage), cosine) << stage;
    std::printf("%s: cosine %.4f, at first %.4f\n", stage.c_str(), last.at("cosine." + stage),
                first.at("cosine." + stage));
  }
  EXPECT_LT(first.at("cosine.conv1"), 0.5);
  for (const char* stage : {"conv2", "fc1", "fc2"}) {
    EXPECT_LT(last.at(std::string("angle.") + stage), 35);
    EXPECT_LT(last.at(std::string("distance.") + stage),
              first.at(std::string("distance.") + stage));
    std::printf("%s: angle %.1f, at first %.1f\n", stage, last.at(std::string("angle.") + stage),
                first.at(std::string("angle.") + stage));
  }
}

/// With the transposes as feedback targets are beta times the gradients of the summed loss away.
TEST(Dtp, MeasuresOfALayerFollowTheirFormulas) {
  Training run("mlp:64-48-32-10", "symmetric=1 K=0", {64});
  std::vector<at::Tensor> outputs;
  at::Tensor x = run.batch.inputs;
  for (const Stage& stage : run.model->stages()) {
    x = stage.forward(x);
    x.retain_grad();
    outputs.push_back(x);
  }
  torch::nn::functional::cross_entropy(
      x, run.batch.targets, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
      .backward();
  const std::map<std::string, double> measured = run.step().more;
  const char* const names[] = {"0", "2", "4"};
  for (std::size_t i = 0; i < 3; ++i) {
    const double expected =
        (0.7 * outputs[i].grad()).square().sum(1).mul(0.5).mean().item<double>();
    EXPECT_NEAR(measured.at(std::string("target_loss.") + names[i]), expected, 1e-4 * expected);
  }
  EXPECT_NEAR(measured.at("delta"), 0.7 * outputs[2].grad().norm().item<double>(), 1e-4);
  const at::Tensor order = x.argsort(1, /*descending=*/true);
  const at::Tensor hits = order.eq(run.batch.targets.unsqueeze(1)).to(torch::kDouble);
  EXPECT_NEAR(measured.at("train_accuracy_percent"), 100 * hits.select(1, 0).mean().item<double>(),
              1e-6);
  EXPECT_NEAR(measured.at("train_top5_percent"),
              100 * hits.narrow(1, 0, 5).sum(1).mean().item<double>(), 1e-6);
  EXPECT_EQ(measured.at("feedback_loss"), 0);

  Training learning("mlp:64-48-32-10", "K=2", {64});
  const std::map<std::string, double> losses = learning.step().more;
  EXPECT_NE(losses.at("feedback_loss.2"), losses.at("feedback_loss.4"));
  EXPECT_DOUBLE_EQ(losses.at("feedback_loss"),
                   losses.at("feedback_loss.2") + losses.at("feedback_loss.4"));
}

TEST(Dtp, DiagnosticsChangeNothing) {
  Training with("lenet5", "K=2 diagnose=1", {1, 28, 28}), without("lenet5", "K=2", {1, 28, 28});
  with.step();
  without.step();
  for (const NamedParameter& p : with.model->tensors())
    EXPECT_TRUE(at::equal(with.gradient(p.info.name), without.gradient(p.info.name)))
        << p.info.name;
}

TEST(Dtp, NoiseBelongsToTheSample) {
  const std::vector<std::int64_t> all = {4, 9, 1}, one = {9};
  const NoiseKey key{1, "test", "layer", 2};
  const at::Tensor three = normal_noise(key, all, {5, 7});
  EXPECT_TRUE(at::equal(three[1], normal_noise(key, one, {5, 7})[0]));
  EXPECT_FALSE(at::equal(three[0], three[1]));
  NoiseKey other = key;
  other.layer = "another";
  EXPECT_FALSE(at::equal(three, normal_noise(other, all, {5, 7})));
}

TEST(Dtp, WeightsAreNotTheModels) {
  Training run("mlp:64-48-32-10", "symmetric=1 K=1", {64});
  std::vector<at::Tensor> before;
  for (const NamedParameter& p : run.model->tensors()) before.push_back(p.tensor.detach().clone());
  run.step();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], run.model->tensors()[i].tensor));
}

TEST(Dtp, ShardsAddUpToTheWholeBatch) {
  Training whole("mlp:64-48-32-10", "K=3", {64}), parts("mlp:64-48-32-10", "K=3 shards=8", {64});
  whole.step();
  parts.step();
  const auto a = whole.strategy->aux_state(), b = parts.strategy->aux_state();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::allclose(a[i].value, b[i].value, 1e-3, 1e-5)) << a[i].name;
}

TEST(Dtp, VariantsDiffer) {
  std::vector<at::Tensor> results;
  for (const char* variant : {"dtp", "vanilla", "tp", "parallel"}) {
    Training run("mlp:64-48-32-10", std::string("variant=") + variant, {64});
    run.step();
    run.step();
    for (const at::Tensor& other : results)
      EXPECT_FALSE(at::equal(other, run.gradient("0.weight"))) << variant;
    results.push_back(run.gradient("0.weight"));
  }
}

TEST(Dtp, ReadsTheDigits) {
  const Data digits = open_data("digits");
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-64-32-10", host().registry());
  BottleneckOptions plain;
  plain.min_elements = 1 << 30;
  plain.plain_optimizer.lr = 3e-3;
  GenomicBottleneck bottleneck(model->tensors(), host().registry(), plain);
  TrainOptions options;
  options.epochs = 12;
  options.strategy = {"dtp", "K=5"};
  const auto strategy = make_strategy(
      options.strategy, strategy_setup(*model, bottleneck, digits.train, options, nullptr),
      host().registry());
  train(*model, bottleneck, digits.train, options, nullptr, {}, {}, strategy.get());
  EXPECT_GT(evaluate(*model, digits.test, Metric::kAccuracy), 90);
}

/// A layer of nobody's: x^3.
struct CubeImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * x * x; }
};
TORCH_MODULE(Cube);

class CubeInverse final : public LayerInverse {
 public:
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    record = {3 * x * x};
    return x * x * x;
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record, bool) const override {
    return y * record.at(0);
  }
};

std::unique_ptr<Model> with_cubes() {
  Registry& registry = const_cast<Registry&>(host().registry());
  if (!registry.models().contains("cubes"))
    registry.stage("cubes", [](Registrar& r) {
      r.register_model("cubes", [](const ModelRequest&) {
        torch::nn::Linear a(64, 20), b(20, 20), c(20, 10);
        torch::nn::ReLU relu;
        Cube cube;
        torch::nn::Sequential all(a, relu, b, cube, c);
        const auto stage = [](const char* name, torch::nn::Sequential layers) {
          return Stage{name, [layers](const at::Tensor& x) mutable { return layers->forward(x); },
                       layers.ptr()};
        };
        return BuiltModel{
            all.ptr(),
            [all](const at::Tensor& x) mutable { return all->forward(x); },
            {64},
            {stage("a", torch::nn::Sequential(a, relu)), stage("b", torch::nn::Sequential(b, cube)),
             stage("c", torch::nn::Sequential(c))}};
      });
    });
  torch::manual_seed(5);
  return build_model("cubes", registry);
}

TEST(Dtp, LayersBringTheirOwnInverse) {
  try {
    Training run(with_cubes(), "", {64});
    FAIL() << "a layer without an inverse was taken";
  } catch (const Error& error) {
    expect_has(error.what(), {"stage b", "Cube", "register_inverse(\"Cube\""});
  }
  register_inverse("Cube", [](const InverseRequest&) { return std::make_unique<CubeInverse>(); });
  // It does not say that it is affine, so that outputs themselves go back, and their differences
  // are taken there.
  Training local(with_cubes(), "symmetric=1 K=0 diagnose=1", {64});
  const auto measured = local.step().more;
  for (const char* stage : {"a", "b", "c"})
    EXPECT_GT(measured.at(std::string("cosine.") + stage), 0.999) << stage;
  Training learning(with_cubes(), "K=3", {64});
  EXPECT_TRUE(std::isfinite(learning.step().more.at("feedback_loss")));
}

}  // namespace
}  // namespace gbcompress
