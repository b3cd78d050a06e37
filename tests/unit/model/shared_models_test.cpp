#include <torch/torch.h>

#include <set>

#include "gbcompress/model.h"
#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

struct SharedModels : ::testing::Test {
  void SetUp() override { GBC_NEEDS_SHARED_DATA(); }
  std::unique_ptr<Model> open(const std::string& file, const std::string& arch = "") {
    auto model = open_model(shared_data() / "models" / file, arch, registry);
    model->train(false);
    return model;
  }
  /// Right answers among the first `count` test samples.
  static std::int64_t right(Model& model, const Data& data, std::int64_t count) {
    torch::NoGradGuard no_grad;
    std::int64_t sum = 0;
    for (std::int64_t first = 0; first < count; first += 250) {
      const Batch batch = data.test.range(first, std::min<std::int64_t>(250, count - first));
      sum += (model.forward(batch.inputs).argmax(1) == batch.targets).sum().item<std::int64_t>();
    }
    return sum;
  }
  Registry registry = builtin_registry();
};

TEST_F(SharedModels, TorchScriptNamesAreThoseOfTheStateDict) {
  for (const std::string name : {"lenet-300-100-mnist", "resnet20-cifar10", "char-transformer"}) {
    const auto script = open(name + ".torchscript.pt"), bare = open(name + ".safetensors");
    std::set<std::string> a, b;
    for (const NamedParameter& entry : script->tensors()) a.insert(entry.info.name);
    for (const NamedParameter& entry : bare->tensors()) {
      b.insert(entry.info.name);
      const NamedParameter& other = find(*script, entry.info.name);
      EXPECT_TRUE(torch::equal(other.tensor, entry.tensor)) << entry.info.name;
      EXPECT_EQ(other.info.dtype, entry.info.dtype) << entry.info.name;
      EXPECT_EQ(other.trainable, entry.trainable) << entry.info.name;
    }
    EXPECT_EQ(a, b) << name;
  }
}

TEST_F(SharedModels, GuessedTypesAgreeWithTorchScript) {
  const auto script = open("char-transformer.torchscript.pt"),
             bare = open("char-transformer.safetensors");
  for (const NamedParameter& entry : bare->tensors()) {
    if (entry.info.module_type.empty()) continue;
    std::string type = find(*script, entry.info.name).info.module_type;
    if (type == "NonDynamicallyQuantizableLinear") type = "Linear";
    EXPECT_EQ(entry.info.module_type, type) << entry.info.name;
  }
}

TEST_F(SharedModels, StateDictAndSafetensorsAreOne) {
  for (const auto& [name, arch] :
       {std::pair{"lenet-300-100-mnist", "lenet-300-100"}, {"resnet20-cifar10", "resnet20"}}) {
    const auto a = open(std::string(name) + ".state_dict.pt", arch),
               b = open(std::string(name) + ".safetensors", arch);
    for (const NamedParameter& entry : a->tensors())
      EXPECT_TRUE(torch::equal(entry.tensor, find(*b, entry.info.name).tensor)) << entry.info.name;
  }
}

TEST_F(SharedModels, LeNetScores) {
  const Data data = open_data("mnist:" + (shared_data() / "mnist").string());
  ASSERT_EQ(data.test.size(), 10'000);
  EXPECT_EQ(data.train.size(), 60'000);
  auto model = open("lenet-300-100-mnist.safetensors", "lenet-300-100");
  EXPECT_EQ(right(*model, data, 10'000), 9'845);
  model = open("lenet-300-100-mnist.torchscript.pt");
  EXPECT_EQ(right(*model, data, 10'000), 9'845);
}

TEST_F(SharedModels, ResNetScores) {
  const auto folder = shared_data() / "cifar10-jpeg";
  // The test file for both parts: reading the training file would take most of the time.
  const auto test = (folder / "test.bin.gz").string();
  const Data data = open_data("cifar10:" + test + "," + test);
  ASSERT_EQ(data.test.size(), 2'500);
  const auto built = open("resnet20-cifar10.safetensors", "resnet20"),
             script = open("resnet20-cifar10.torchscript.pt");
  torch::NoGradGuard no_grad;
  const at::Tensor some = data.test.range(0, 50).inputs;
  EXPECT_TRUE(torch::allclose(built->forward(some), script->forward(some), 1e-4, 1e-4));
  // 81.68 % of all 2,500 with GBC_TEST_ALL set, else the first 500; one image may tip over.
  const bool all = std::getenv("GBC_TEST_ALL") != nullptr;
  EXPECT_NEAR(right(*built, data, all ? 2'500 : 500), all ? 2'042 : 408, 1);
}

TEST_F(SharedModels, CharTransformerScores) {
  const Data data = open_data("text:" + (shared_data() / "text" / "tinyshakespeare.txt").string());
  EXPECT_EQ(data.classes, 65);
  const auto model = open("char-transformer.torchscript.pt");
  torch::NoGradGuard no_grad;
  // All windows with GBC_TEST_ALL set, else every eighth.
  const bool all = std::getenv("GBC_TEST_ALL") != nullptr;
  std::int64_t windows = 0;
  double nats = 0;
  for (std::int64_t first = 0; first < data.test.size(); first += all ? 1 : 8, ++windows) {
    const Batch batch = data.test.range(first, 1);
    const at::Tensor scores = model->forward(batch.inputs);
    ASSERT_EQ(scores.dim(), 3);
    nats += torch::nn::functional::cross_entropy(
                scores.flatten(0, 1), batch.targets.flatten(),
                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                .item<double>();
  }
  nats /= static_cast<double>(windows * 128);
  // What PyTorch's own code gives for the same windows.
  EXPECT_NEAR(nats, all ? 1.67215 : 1.70620, 2e-4);
}

TEST_F(SharedModels, TheTransformerTrains) {
  const auto model = open("char-transformer.torchscript.pt");
  model->train(true);
  for (int run = 0; run < 3; ++run) model->forward(torch::randint(65, {2, 128})).sum().backward();
  for (const NamedParameter& entry : model->tensors())
    EXPECT_EQ(entry.tensor.grad().defined(), entry.trainable) << entry.info.name;
}

}  // namespace
}  // namespace gbcompress
