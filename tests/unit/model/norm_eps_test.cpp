// Folding batch norms whose eps is not the usual one.
#include <torch/script.h>

#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

constexpr double kEps = 0.02;

/// Random statistics, small enough for eps to matter.
void unsettle(Model& model) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  for (NamedParameter& p : model.tensors()) {
    if (p.info.local_name == "running_mean") p.tensor.normal_(0, 0.5);
    if (p.info.local_name == "running_var") p.tensor.uniform_(0.001, 0.05);
    if (p.info.local_name == "bias" && p.tensor.dim() == 1) p.tensor.normal_(0, 0.5);
  }
}

void expect_same_function(Model& model, const at::Tensor& inputs, std::int64_t unknown) {
  const torch::NoGradGuard no_grad;
  model.train(false);
  unsettle(model);
  const at::Tensor before = model.forward(inputs);
  const FoldedNorms folded = fold_batch_norms(model);
  EXPECT_EQ(folded.all, 1);
  EXPECT_EQ(folded.eps_unknown, unknown);
  EXPECT_EQ(torch::allclose(model.forward(inputs), before, 1e-4, 1e-4), unknown == 0);
}

TEST(NormEps, IsReadFromModulesOfAnArchitecture) {
  Registry types;
  types.stage("program", [](Registrar& staging) {
    staging.register_model("normed", [](const ModelRequest&) {
      torch::nn::Sequential net(torch::nn::Conv2d(3, 4, 3),
                                torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).eps(kEps)),
                                torch::nn::Flatten());
      return BuiltModel{
          net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, {3, 6, 6}};
    });
  });
  const auto model = build_model("normed", types);
  EXPECT_EQ(model->norm_eps(), (std::map<std::string, double>{{"1", kEps}}));
  expect_same_function(*model, torch::randn({5, 3, 6, 6}), 0);
}

TEST(FreezeNorms, LeavesDropoutOn) {
  Registry types;
  types.stage("program", [](Registrar& staging) {
    staging.register_model("dropped", [](const ModelRequest&) {
      torch::nn::Sequential net(torch::nn::Linear(8, 6), torch::nn::BatchNorm1d(6),
                                torch::nn::Dropout(0.5));
      return BuiltModel{
          net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, {8}};
    });
  });
  const auto model = build_model("dropped", types);
  const torch::NoGradGuard no_grad;
  const at::Tensor inputs = torch::randn({40, 8}) + 3;
  model->train(false);
  const at::Tensor calm = model->forward(inputs);
  model->train(true);
  model->freeze_norms();
  std::vector<at::Tensor> before;
  for (const NamedParameter& p : model->tensors()) before.push_back(p.tensor.clone());
  const at::Tensor dropped = model->forward(inputs);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(torch::equal(before[i], model->tensors()[i].tensor)) << "statistics moved";
  const at::Tensor kept = dropped.ne(0);
  EXPECT_GT((~kept).sum().item<std::int64_t>(), 60) << "dropout is off";
  EXPECT_TRUE(
      torch::allclose(dropped.masked_select(kept), calm.masked_select(kept) * 2, 1e-5, 1e-5));
  model->train(true);
  model->forward(inputs);
  EXPECT_FALSE(torch::equal(before[2], model->tensors()[2].tensor) &&
               torch::equal(before[4], model->tensors()[4].tensor))
      << "train() thaws them";
}

class ScriptedNorm : public ::testing::Test {
 protected:
  /// @param call  how eps is passed to batch_norm
  std::unique_ptr<Model> make(const std::string& call, bool constant) {
    torch::jit::Module norm("__torch__.torch.nn.modules.batchnorm.BatchNorm2d");
    norm.register_parameter("weight", torch::ones({3}), false);
    norm.register_parameter("bias", torch::zeros({3}), false);
    norm.register_buffer("running_mean", torch::zeros({3}));
    norm.register_buffer("running_var", torch::ones({3}));
    if (constant) norm.type()->addConstant("eps", kEps);
    norm.define("def forward(self, x):\n  " + call +
                "\n  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, "
                "self.running_var, False, 0.1, e, False)\n");
    torch::jit::Module net("__torch__.Net");
    net.register_module("bn", norm);
    net.define("def forward(self, x):\n  return self.bn.forward(x).flatten(1)\n");
    net.save((folder_ / "net.pt").string());
    return open_model(folder_ / "net.pt", "", Registry());
  }
  TemporaryFolder folder_;
};

TEST_F(ScriptedNorm, ItsConstantIsRead) {
  const auto model = make("e = 0.02", true);
  EXPECT_EQ(model->norm_eps(), (std::map<std::string, double>{{"bn", kEps}}));
  expect_same_function(*model, torch::randn({5, 3, 6, 6}), 0);
}

TEST_F(ScriptedNorm, TheNumberItCallsWithIsRead) {
  const auto model = make("e = 0.02", false);
  EXPECT_EQ(model->norm_eps(), (std::map<std::string, double>{{"bn", kEps}}));
  expect_same_function(*model, torch::randn({5, 3, 6, 6}), 0);
}

TEST_F(ScriptedNorm, WhatIsComputedIsNotKnown) {
  const auto model = make("e = 0.01 * float(x.size(1)) - 0.01", false);
  EXPECT_TRUE(model->norm_eps().empty());
  expect_same_function(*model, torch::randn({5, 3, 6, 6}), 1);
}

}  // namespace
}  // namespace gbcompress
