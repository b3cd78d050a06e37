#include <torch/script.h>

#include <cmath>

#include "model/tensor_facts.h"
#include "unit/model/support.h"

namespace gbcompress {

// A user's module, in a namespace and with a template argument in its name.
template <typename T>
struct TwinImpl : torch::nn::Module {
  TwinImpl() {
    conv = register_module("conv", torch::nn::Conv2d(2, 3, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    inner = register_module("inner", torch::nn::Sequential(torch::nn::Linear(4, 5)));
    table = register_module("table", torch::nn::Embedding(5, 4));
    scale = register_parameter("scale", torch::arange(4.0f));
    register_parameter("head", inner[0]->as<torch::nn::Linear>()->weight);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential inner{nullptr};
  torch::nn::Embedding table{nullptr};
  at::Tensor scale;
};

namespace {

using namespace testing_support;

const NamedParameter& entry_of(const std::vector<NamedParameter>& entries,
                               const std::string& name) {
  for (const NamedParameter& entry : entries)
    if (entry.info.name == name) return entry;
  throw std::runtime_error("no tensor " + name);
}

TEST(NamedParameters, OfAModuleInOrderWithTypes) {
  TwinImpl<float> module;
  const auto entries = named_parameters(module);
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "head", "conv.weight", "conv.bias",
                                             "norm.weight", "norm.bias", "inner.0.weight",
                                             "inner.0.bias", "table.weight", "norm.running_mean",
                                             "norm.running_var", "norm.num_batches_tracked"}));
  EXPECT_EQ(entry_of(entries, "scale").info.module_type, "Twin");
  EXPECT_EQ(entry_of(entries, "scale").info.module_path, "");
  const ParameterInfo& linear = entry_of(entries, "inner.0.weight").info;
  EXPECT_EQ(linear.module_type, "Linear");
  EXPECT_EQ(linear.module_path, "inner.0");
  EXPECT_EQ(linear.local_name, "weight");
  EXPECT_EQ(linear.shape, (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(entry_of(entries, "conv.weight").info.module_type, "Conv2d");
  EXPECT_EQ(entry_of(entries, "norm.running_var").info.module_type, "BatchNorm2d");
}

TEST(NamedParameters, BuffersTiesAndLiveMemory) {
  TwinImpl<int> module;
  const auto entries = named_parameters(module);
  EXPECT_EQ(entry_of(entries, "inner.0.weight").tied_to, "head");
  EXPECT_EQ(entry_of(entries, "head").tied_to, "");
  EXPECT_TRUE(entry_of(entries, "norm.weight").trainable);
  const NamedParameter& counter = entry_of(entries, "norm.num_batches_tracked");
  EXPECT_FALSE(counter.trainable);
  EXPECT_EQ(counter.info.dtype, DType::kI64);
  EXPECT_TRUE(counter.info.shape.empty());
  EXPECT_EQ(counter.info.std, 0);
  {
    torch::NoGradGuard no_grad;
    entry_of(entries, "scale").tensor.fill_(7);
  }
  EXPECT_EQ(module.scale[3].item<float>(), 7);
}

TEST(NamedParameters, OfTorchScript) {
  torch::jit::Module inner("__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear");
  inner.register_parameter("weight", torch::ones({2, 3}), false);
  inner.register_buffer("mask", torch::zeros({2}));
  torch::jit::Module outer("__torch__.Net");
  outer.register_module("fc", inner);
  outer.register_module("again", inner);
  outer.register_parameter("alpha", torch::ones({}), false);
  outer.register_attribute("plain", c10::TensorType::get(), torch::ones({9}));
  const auto entries = named_parameters(outer);
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"alpha", "fc.weight", "again.weight", "fc.mask",
                                             "again.mask"}));
  EXPECT_EQ(entry_of(entries, "fc.weight").info.module_type, "Linear");
  EXPECT_EQ(entry_of(entries, "alpha").info.module_type, "Net");
  EXPECT_EQ(entry_of(entries, "again.weight").tied_to, "fc.weight");
  EXPECT_FALSE(entry_of(entries, "fc.mask").trainable);
}

TEST(StandardDeviation, IsTheUnbiasedOne) {
  EXPECT_DOUBLE_EQ(standard_deviation(torch::tensor({1.0, 2.0, 3.0, 4.0})), std::sqrt(5.0 / 3));
  EXPECT_EQ(standard_deviation(torch::ones({1})), 0);
  EXPECT_EQ(standard_deviation(torch::ones({0})), 0);
  EXPECT_DOUBLE_EQ(standard_deviation(torch::tensor({2, 4})), std::sqrt(2.0));
  EXPECT_EQ(standard_deviation(torch::tensor({0.0f, -INFINITY})), 0);
  // Longer than one piece, far from 0, and laid out in another order.
  torch::manual_seed(1);
  const at::Tensor big = torch::randn({300, 500}).t() + 1000;
  EXPECT_NEAR(standard_deviation(big), big.to(torch::kDouble).std().item<double>(), 1e-9);
  const double one_thread = [&] {
    const int before = at::get_num_threads();
    at::set_num_threads(1);
    const double result = standard_deviation(big);
    at::set_num_threads(before);
    return result;
  }();
  EXPECT_EQ(standard_deviation(big), one_thread);
}

TEST(ElementTypes, ThereAndBack) {
  for (DType dtype :
       {DType::kBool, DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kU32, DType::kI32,
        DType::kU64, DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64,
        DType::kF8E5M2, DType::kF8E4M3, DType::kF8E5M2FNUZ, DType::kF8E4M3FNUZ, DType::kF8E8M0}) {
    EXPECT_EQ(to_dtype(to_scalar_type(dtype)), dtype) << dtype_name(dtype);
    EXPECT_EQ(c10::elementSize(to_scalar_type(dtype)) * 8, std::size_t(dtype_bits(dtype)));
  }
  expect_error([] { to_scalar_type(DType::kF4); }, Errc::kUnsupported, {"F4"});
  expect_error([] { to_dtype(torch::kComplexDouble); }, Errc::kUnsupported, {"ComplexDouble"});
}

TEST(Finite, WhatHoldsNaNOrInfinityIsNotTrainable) {
  const auto inf = std::numeric_limits<float>::infinity();
  const std::vector<at::Tensor> bad = {
      torch::tensor({0.0f, NAN}), torch::tensor({0.0f, inf}), torch::tensor({0.0f, -inf}),
      torch::tensor({1.0f, -inf}).to(torch::kHalf), torch::tensor({0.0, double(NAN)})};
  for (const at::Tensor& tensor : bad) {
    std::vector<NamedParameter> entries(2);
    entries[0].tensor = torch::ones({2});
    entries[1].tensor = tensor;
    for (NamedParameter& entry : entries) {
      entry.trainable = true;
      fill_facts(entry);
    }
    freeze_not_finite(entries);
    EXPECT_TRUE(entries[0].trainable);
    EXPECT_FALSE(entries[1].trainable);
  }
}

}  // namespace
}  // namespace gbcompress
