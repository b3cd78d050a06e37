#include <torch/script.h>

#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

struct TorchScript : ::testing::Test {
  std::unique_ptr<Model> make(const std::string& forward, at::Tensor weight = torch::ones({2, 4})) {
    torch::jit::Module module("__torch__.Net");
    module.register_attribute("training", c10::BoolType::get(), true);
    if (weight.defined()) module.register_parameter("weight", weight, false);
    module.define("def forward(self, x):\n  " + forward + "\n");
    module.save((folder / "net.pt").string());
    return open_model(folder / "net.pt", "", Registry());
  }
  TemporaryFolder folder;
};

TEST_F(TorchScript, ShapesTheBatchAndRemembersHow) {
  const auto model = make("return torch.linear(x, self.weight)");
  EXPECT_EQ(model->arch(), "torchscript");
  EXPECT_EQ(model->forward(torch::ones({3, 4})).sizes(), (std::vector<std::int64_t>{3, 2}));
  const auto flattening = make("return torch.linear(x, self.weight)");
  EXPECT_EQ(flattening->forward(torch::ones({3, 1, 2, 2}))[0][0].item<float>(), 4);
  EXPECT_EQ(flattening->forward(torch::ones({5, 1, 2, 2})).size(0), 5);
}

TEST_F(TorchScript, FlatBatchesBecomeImages) {
  const auto model =
      make("return torch.conv2d(x, self.weight).flatten(1)", torch::ones({2, 3, 4, 4}));
  EXPECT_EQ(model->forward(torch::ones({5, 48}))[0][0].item<float>(), 48);
}

TEST_F(TorchScript, GradientsReachTheParametersAcrossRuns) {
  const auto model = make("return torch.dropout(torch.linear(x, self.weight), 0.5, self.training)");
  model->train(false);
  at::Tensor weight = model->tensors()[0].tensor;
  // More often than the executor needs to settle on an optimised graph; values change in between.
  for (int run = 0; run < 5; ++run) {
    weight.mutable_grad() = at::Tensor();
    {
      torch::NoGradGuard no_grad;
      weight.fill_(run);
    }
    const at::Tensor y = model->forward(torch::ones({3, 4}));
    EXPECT_EQ(y[0][0].item<float>(), 4 * run) << "dropout must be off, values live";
    y.sum().backward();
    ASSERT_TRUE(weight.grad().defined());
    EXPECT_EQ(weight.grad()[1][2].item<float>(), 3);
  }
  model->train(true);
  weight.detach().fill_(1);
  const at::Tensor noisy = model->forward(torch::ones({100, 4}));
  EXPECT_GT((noisy == 0).sum().item<int>(), 0) << "dropout must be on";
}

TEST_F(TorchScript, ParametersSavedWithoutGradientStillTrain) {
  const auto model =
      make("return torch.linear(x, self.weight)", torch::ones({2, 4}).set_requires_grad(false));
  model->forward(torch::ones({3, 4})).sum().backward();
  EXPECT_TRUE(model->tensors()[0].tensor.grad().defined());
}

TEST_F(TorchScript, WrongBatchesGetOneSentence) {
  const auto model = make("return torch.linear(x, self.weight)");
  expect_error([&] { model->forward(torch::ones({3, 5})); }, Errc::kShapeMismatch, {"[3, 5]"});
  expect_error([&] { model->forward(torch::ones({3, 1, 7, 7})); }, Errc::kShapeMismatch);
  try {
    model->forward(torch::ones({3, 5}));
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
  expect_error(
      [&] {
        make("return 3")->forward(torch::ones({2, 2}));
      },
      Errc::kShapeMismatch, {"Int"});
  expect_error([&] { make("return x.sum()")->forward(torch::ones({2, 2})); }, Errc::kShapeMismatch);
}

TEST_F(TorchScript, TheFirstOfSeveralResultsCounts) {
  const auto model = make("return (torch.linear(x, self.weight), x)");
  EXPECT_EQ(model->forward(torch::ones({3, 4})).sizes(), (std::vector<std::int64_t>{3, 2}));
}

TEST_F(TorchScript, WhatCannotBeCompressedIsRefused) {
  expect_error([&] { make("return x", at::Tensor()); }, Errc::kUnsupported, {"no parameters"});
  EXPECT_FALSE(make("return x", torch::tensor({1.0f, NAN}))->tensors().at(0).trainable);
  make("return x");
  expect_error([&] { open_model(folder / "net.pt", "resnet20", Registry()); }, Errc::kUsage,
               {"TorchScript", "`arch`"});
}

TEST_F(TorchScript, DamagedFilesAreErrorsNotCrashes) {
  make("return x");
  std::ifstream in(folder / "net.pt", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  // The code's own bytes: the zip directory stays whole, LibTorch must refuse the rest.
  const auto code = bytes.find("def forward");
  ASSERT_NE(code, std::string::npos);
  std::string broken = bytes;
  broken.replace(code, 11, "!!! !!!!!!!");
  write_bytes(folder / "net.pt", broken);
  try {
    open_model(folder / "net.pt", "", Registry());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kCorrupt) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
  write_bytes(folder / "net.pt", bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(open_model(folder / "net.pt", "", Registry()), Error);
}

}  // namespace
}  // namespace gbcompress
