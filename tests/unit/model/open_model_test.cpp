#include <torch/torch.h>

#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

struct OpenModel : ::testing::Test {
  TemporaryFolder folder;
  Registry registry = builtin_registry();
  std::filesystem::path file = folder / "model.safetensors";
};

TEST_F(OpenModel, LoadsEveryValueOfAnArchitecture) {
  for (const char* arch : {"lenet-300-100", "lenet5", "resnet20", "mlp"}) {
    const auto original = build_model(std::string(arch) == "mlp" ? "mlp:9-8-7-6" : arch, registry);
    write_tensors(file, tensors_of(*original));
    const auto opened = open_model(file, arch, registry);
    ASSERT_EQ(opened->tensors().size(), original->tensors().size());
    for (const NamedParameter& entry : original->tensors()) {
      EXPECT_TRUE(torch::equal(find(*opened, entry.info.name).tensor, entry.tensor));
      EXPECT_EQ(find(*opened, entry.info.name).info.std, entry.info.std);
    }
    EXPECT_EQ(opened->arch(), arch);
    EXPECT_TRUE(opened->has_forward());
  }
}

TEST_F(OpenModel, MlpReadsWidthsBehindDropoutAndWithoutBias) {
  write_tensors(file, {{"0.weight", torch::randn({5, 6})},
                       {"10.weight", torch::randn({2, 4})},
                       {"3.weight", torch::randn({4, 5})}});
  torch::NoGradGuard no_grad;
  const auto model = open_model(file, "mlp", registry);
  EXPECT_EQ(model->tensors().size(), 3);
  const at::Tensor x = torch::randn({7, 6});
  at::Tensor y = torch::relu(x.matmul(find(*model, "0.weight").tensor.t()));
  y = torch::relu(y.matmul(find(*model, "3.weight").tensor.t()));
  y = y.matmul(find(*model, "10.weight").tensor.t());
  EXPECT_TRUE(torch::allclose(model->forward(x), y, 1e-5, 1e-6));
}

TEST_F(OpenModel, HalfPrecisionIsComputedInFloatAndRemembered) {
  Tensors tensors = tensors_of(*build_model("mlp:4-3-2", registry));
  const at::ScalarType types[] = {torch::kHalf, torch::kBFloat16, torch::kDouble, torch::kHalf};
  const DType dtypes[] = {DType::kF16, DType::kBF16, DType::kF64, DType::kF16};
  for (int i = 0; i < 4; ++i) tensors[i].second = tensors[i].second.to(types[i]);
  write_tensors(file, tensors);
  for (const char* arch : {"mlp", ""}) {
    const auto model = open_model(file, arch, registry);
    for (int i = 0; i < 4; ++i) {
      const NamedParameter& entry = find(*model, tensors[i].first);
      EXPECT_EQ(entry.tensor.scalar_type(), torch::kFloat);
      EXPECT_EQ(entry.info.dtype, dtypes[i]);
      EXPECT_TRUE(torch::equal(entry.tensor, tensors[i].second.to(torch::kFloat)));
      EXPECT_TRUE(entry.tensor.is_leaf() && entry.tensor.requires_grad());
    }
  }
}

TEST_F(OpenModel, AWrongArchitectureListsDifferencesAndNamesTheRightOne) {
  write_tensors(file, tensors_of(*build_model("lenet5", registry)));
  expect_error([&] { open_model(file, "lenet-300-100", registry); }, Errc::kShapeMismatch,
               {"missing 0.weight [300, 784]", "unexpected conv1.weight [20, 1, 5, 5]",
                "and 6 more", "they fit `arch` lenet5"});
  expect_error([&] { open_model(file, "mlp", registry); }, Errc::kShapeMismatch,
               {"0.weight", "they fit `arch` lenet5"});
  // Names agree, shapes do not, and nothing else fits.
  write_tensors(file, tensors_of(*build_model("mlp:784-300-99-10", registry)));
  expect_error([&] { open_model(file, "lenet-300-100", registry); }, Errc::kShapeMismatch,
               {"2.weight [99, 300] should be [100, 300]", "4.weight [10, 99]", "`arch` mlp"});
}

TEST_F(OpenModel, OneMissingTensorIsNamed) {
  Tensors tensors = tensors_of(*build_model("lenet-300-100", registry));
  tensors.erase(tensors.begin() + 1);
  write_tensors(file, tensors);
  for (const char* arch : {"lenet-300-100", "mlp"})
    expect_error([&] { open_model(file, arch, registry); }, Errc::kShapeMismatch,
                 {"missing 0.bias [300]"});
}

TEST_F(OpenModel, NaNAndInfinityAreNotTrainable) {
  for (const float bad : {NAN, INFINITY}) {
    Tensors tensors = tensors_of(*build_model("mlp:4-3-2", registry));
    tensors[2].second[1][1] = bad;
    write_tensors(file, tensors);
    for (const char* arch : {"mlp", ""}) {
      const auto model = open_model(file, arch, registry);
      for (const NamedParameter& entry : model->tensors())
        EXPECT_EQ(entry.trainable, entry.info.name != "2.weight") << arch << entry.info.name;
    }
  }
}

TEST_F(OpenModel, WrongFilesAndNames) {
  expect_error([&] { open_model(folder / "none", "", registry); }, Errc::kNotFound, {"none"});
  write_bytes(file, "");
  expect_error([&] { open_model(file, "", registry); }, Errc::kTruncated);
  write_bytes(folder / "words", "these are only words");
  expect_error([&] { open_model(folder / "words", "", registry); }, Errc::kUnsupported);
  write_tensors(file, {{"x", torch::ones({2})}});
  expect_error([&] { open_model(file, "lenet-5", registry); }, Errc::kUsage, {"lenet5"});
}

TEST_F(OpenModel, ATiedTensorNeedsOneOfItsNames) {
  registry.stage("test", [](Registrar& registrar) {
    registrar.register_model("tied", [](const ModelRequest&) -> BuiltModel {
      struct Net : torch::nn::Module {
        Net() {
          first = register_module("first", torch::nn::Linear(3, 3));
          register_parameter("head", first->weight);
        }
        torch::nn::Linear first{nullptr};
      };
      auto net = std::make_shared<Net>();
      return {net, [net](const at::Tensor& x) { return net->first(x); }, {3}};
    });
  });
  const at::Tensor weight = torch::randn({3, 3});
  write_tensors(file, {{"head", weight}, {"first.bias", torch::ones({3})}});
  const auto model = open_model(file, "tied", registry);
  EXPECT_TRUE(torch::equal(find(*model, "first.weight").tensor, weight));
  EXPECT_EQ(find(*model, "first.weight").tied_to, "head");
  write_tensors(file, {{"first.weight", weight + 1}, {"first.bias", torch::ones({3})}});
  const auto other = open_model(file, "tied", registry);
  EXPECT_TRUE(torch::equal(find(*other, "head").tensor, weight + 1));
}

}  // namespace
}  // namespace gbcompress
