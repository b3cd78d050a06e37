#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

std::map<std::string, std::vector<std::int64_t>> shapes(const Model& model) {
  std::map<std::string, std::vector<std::int64_t>> result;
  for (const NamedParameter& entry : model.tensors()) result[entry.info.name] = entry.info.shape;
  return result;
}
std::int64_t trainable_weights(const Model& model) {
  std::int64_t sum = 0;
  for (const NamedParameter& entry : model.tensors())
    if (entry.trainable) sum += entry.tensor.numel();
  return sum;
}

TEST(Architectures, AreListedSorted) {
  EXPECT_EQ(known_architectures(builtin_registry()),
            (std::vector<std::string>{"lenet-300-100", "lenet5", "mlp", "resnet20", "resnet32",
                                      "resnet56"}));
}

TEST(Architectures, ParameterCountsOfTheLiterature) {
  const Registry registry = builtin_registry();
  EXPECT_EQ(trainable_weights(*build_model("lenet-300-100", registry)), 266'610);
  EXPECT_EQ(trainable_weights(*build_model("lenet5", registry)), 431'080);
  // Counted by Idelbayev for option A: 0.27, 0.46 and 0.85 million.
  EXPECT_EQ(trainable_weights(*build_model("resnet20", registry)), 269'722);
  EXPECT_EQ(trainable_weights(*build_model("resnet32", registry)), 464'154);
  EXPECT_EQ(trainable_weights(*build_model("resnet56", registry)), 853'018);
  EXPECT_EQ(build_model("resnet56", registry)->arch(), "resnet56");
}

TEST(Architectures, NamesAndTypesOfPython) {
  const Registry registry = builtin_registry();
  const auto mlp = shapes(*build_model("mlp:6-5-4", registry));
  const decltype(mlp) wanted = {
      {"0.weight", {5, 6}}, {"0.bias", {5}}, {"2.weight", {4, 5}}, {"2.bias", {4}}};
  EXPECT_EQ(mlp, wanted);
  const auto lenet5 = shapes(*build_model("lenet5", registry));
  EXPECT_EQ(lenet5.at("conv1.weight"), (std::vector<std::int64_t>{20, 1, 5, 5}));
  EXPECT_EQ(lenet5.at("conv2.weight"), (std::vector<std::int64_t>{50, 20, 5, 5}));
  EXPECT_EQ(lenet5.at("fc1.weight"), (std::vector<std::int64_t>{500, 800}));
  EXPECT_EQ(lenet5.at("fc2.bias"), (std::vector<std::int64_t>{10}));
  const auto resnet = build_model("resnet32:100", registry);
  EXPECT_EQ(find(*resnet, "linear.weight").info.shape, (std::vector<std::int64_t>{100, 64}));
  EXPECT_EQ(find(*resnet, "linear.weight").info.module_type, "Linear");
  EXPECT_EQ(find(*resnet, "layer3.4.conv2.weight").info.module_type, "Conv2d");
  EXPECT_EQ(find(*resnet, "layer2.0.bn1.running_var").info.module_type, "BatchNorm2d");
}

TEST(Architectures, TakeFlatAndShapedBatches) {
  const Registry registry = builtin_registry();
  torch::NoGradGuard no_grad;
  for (const auto& [arch, shape] :
       {std::pair<std::string, std::vector<std::int64_t>>{"lenet-300-100", {1, 28, 28}},
        {"lenet5", {28, 28}},
        {"resnet20", {3, 32, 32}},
        {"mlp:784-7-10", {784}}}) {
    const auto model = build_model(arch, registry);
    model->train(false);
    std::vector<std::int64_t> batch = {3};
    batch.insert(batch.end(), shape.begin(), shape.end());
    const at::Tensor inputs = torch::randn(batch), scores = model->forward(inputs);
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{3, 10})) << arch;
    EXPECT_TRUE(torch::equal(scores, model->forward(inputs.flatten(1)))) << arch;
  }
}

TEST(Architectures, ComputeWhatTheyPromise) {
  // 2-2-1 with ReLU, by hand: relu(x0 - x1), relu(x1 - x0) summed is |x0 - x1|.
  const auto model = build_model("mlp:2-2-1", builtin_registry());
  torch::NoGradGuard no_grad;
  find(*model, "0.weight").tensor.copy_(torch::tensor({{1.0, -1.0}, {-1.0, 1.0}}));
  find(*model, "0.bias").tensor.zero_();
  find(*model, "2.weight").tensor.copy_(torch::tensor({{1.0, 1.0}}));
  find(*model, "2.bias").tensor.fill_(0.5);
  const at::Tensor y = model->forward(torch::tensor({{3.0f, 5.0f}, {1.0f, -6.0f}}));
  EXPECT_FLOAT_EQ(y[0][0].item<float>(), 2.5);
  EXPECT_FLOAT_EQ(y[1][0].item<float>(), 7.5);
}

TEST(Architectures, GradientsReachEveryParameter) {
  const Registry registry = builtin_registry();
  for (const char* arch : {"lenet-300-100", "lenet5", "resnet20"}) {
    const auto model = build_model(arch, registry);
    model->train(true);
    const std::vector<std::int64_t> shape = {4, std::string(arch) == "resnet20" ? 3072 : 784};
    model->forward(torch::randn(shape)).square().sum().backward();
    for (const NamedParameter& entry : model->tensors()) {
      if (entry.trainable) {
        ASSERT_TRUE(entry.tensor.grad().defined()) << entry.info.name;
        EXPECT_GT(entry.tensor.grad().abs().sum().item<float>(), 0) << arch << entry.info.name;
      }
    }
  }
}

TEST(Architectures, StagesAreTheForwardPass) {
  for (const char* arch : {"mlp:12-9-7-4", "lenet5", "lenet-300-100", "resnet20"}) {
    torch::manual_seed(3);
    const auto model = build_model(arch, builtin_registry());
    ASSERT_GE(model->stages().size(), 3u) << arch;
    const std::string name = arch;
    const std::int64_t inputs = name.starts_with("mlp") ? 12 : name == "resnet20" ? 3072 : 784;
    model->train(false);                            // or the second pass would see other statistics
    const at::Tensor x = torch::rand({5, inputs});  // flat, also where images are wanted
    at::Tensor y = x;
    std::size_t parameters = 0;
    for (const Stage& stage : model->stages()) {
      y = stage.forward(y);
      for (const at::Tensor& p : stage.module->parameters()) {
        ++parameters;
        bool live = false;
        for (const NamedParameter& entry : model->tensors()) live = live || entry.tensor.is_same(p);
        EXPECT_TRUE(live) << arch << " " << stage.name << ": not the model's own memory";
      }
    }
    EXPECT_TRUE(at::equal(y, model->forward(x))) << arch;
    const auto trained = std::count_if(model->tensors().begin(), model->tensors().end(),
                                       [](const NamedParameter& p) { return p.trainable; });
    EXPECT_EQ(parameters, static_cast<std::size_t>(trained)) << arch;
  }
}

TEST(Architectures, TrainingModeMovesBatchNorm) {
  const auto model = build_model("resnet20", builtin_registry());
  const at::Tensor mean = find(*model, "bn1.running_mean").tensor;
  model->train(false);
  model->forward(torch::randn({4, 3, 32, 32}));
  EXPECT_EQ(mean.abs().sum().item<float>(), 0);
  model->train(true);
  model->forward(torch::randn({4, 3, 32, 32}));
  EXPECT_GT(mean.abs().sum().item<float>(), 0);
}

TEST(Architectures, WrongRequestsAreUsageErrors) {
  const Registry registry = builtin_registry();
  for (const char* arch : {"mlp", "mlp:", "mlp:7", "mlp:7-", "mlp:-7-3", "mlp:7-0-3", "mlp:7-x",
                           "mlp:7 -3", "mlp:1048577-2", "mlp:1048576-1048576", "lenet5:3",
                           "lenet-300-100:4", "resnet20:0", "resnet20:ten", "resnet20:99999999"})
    expect_error([&] { build_model(arch, registry); }, Errc::kUsage);
  expect_error([&] { build_model("resnet2o", registry); }, Errc::kUsage,
               {"resnet2o", "did you mean resnet20", "lenet5"});
  expect_error([&] { build_model("a\x1b[31m", registry); }, Errc::kUsage, {"a\\x1b[31m"});
}

TEST(Architectures, WrongInputsNameBothShapes) {
  const auto model = build_model("lenet5", builtin_registry());
  expect_error(
      [&] {
        model->forward(torch::randn({2, 3, 32, 32}));
      },
      Errc::kShapeMismatch, {"[1, 28, 28]", "[3, 32, 32]"});
  expect_error([&] { model->forward(torch::zeros({2, 784}, torch::kLong)); }, Errc::kShapeMismatch);
}

TEST(Architectures, AFactoryThatFailsIsNamed) {
  Registry registry;
  registry.stage("test", [](Registrar& registrar) {
    registrar.register_model("broken", [](const ModelRequest&) -> BuiltModel {
      throw std::runtime_error("out of luck.");
    });
    registrar.register_model("empty", [](const ModelRequest&) { return BuiltModel{}; });
  });
  expect_error([&] { build_model("broken:1", registry); }, Errc::kFailure,
               {"broken:1", "out of luck"});
  expect_error([&] { build_model("empty", registry); }, Errc::kFailure, {"empty", "no module"});
}

}  // namespace
}  // namespace gbcompress
