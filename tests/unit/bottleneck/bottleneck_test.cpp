#include "gbcompress/bottleneck.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "gbcompress/error.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

struct SymmetricImpl : torch::nn::Module {
  explicit SymmetricImpl(std::int64_t n) {
    weight = register_parameter("weight", torch::randn({n, n}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x.matmul(weight); }
  torch::Tensor weight;
};
TORCH_MODULE(Symmetric);

torch::nn::Sequential small_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(12, 20), torch::nn::ReLU(),
                               torch::nn::Linear(20, 5));
}

BottleneckOptions small_options() {
  BottleneckOptions options;
  options.min_elements = 150;  // the 5x20 layer stays plain
  options.gnet.tile_weights = 150;
  options.gnet.hidden = {2};
  options.seed = 4;
  return options;
}

torch::Tensor loss_of(torch::nn::Sequential& net, const torch::Tensor& x, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(net->forward(x), y);
}

TEST(Bottleneck, FollowsTheSpecificationsFormulas) {
  const Registry registry = test_registry();
  auto net = small_net();
  const auto w = net[0]->as<torch::nn::Linear>()->weight.detach().clone().to(torch::kDouble);
  GenomicBottleneck bottleneck(*net, registry, small_options());
  ASSERT_EQ(bottleneck.layers().size(), 1u) << "the 5x20 layer is below min_elements";
  const auto& layer = bottleneck.layers()[0];
  // Output scale: 2 * std with n - 1, worked out from the numbers themselves.
  double mean = 0, square = 0;
  const double n = static_cast<double>(w.numel());
  for (std::int64_t i = 0; i < w.numel(); ++i) mean += w.flatten()[i].item<double>() / n;
  for (std::int64_t i = 0; i < w.numel(); ++i)
    square += std::pow(w.flatten()[i].item<double>() - mean, 2);
  EXPECT_NEAR(layer.spec.output_scale, 2 * std::sqrt(square / (n - 1)), 1e-6);
  // ceil(sqrt(150)) = 13 rows, the 12 columns that there are; 4 + 4 bits.
  EXPECT_EQ(layer.spec.tile_rows, 13);
  EXPECT_EQ(layer.spec.tile_cols, 12);
  EXPECT_EQ(layer.spec.grid().tiles(), 2);
  EXPECT_EQ(layer.theta.size(1), 8 * 2 + 2 + 2 + 1);
  EXPECT_EQ(gnet_parameters(bottleneck), 42);
  EXPECT_EQ(plain_parameters(bottleneck), 20 + 20 * 5 + 5);
}

TEST(Bottleneck, WeightsAreUntouchedUntilPredicted) {
  const Registry registry = test_registry();
  auto net = small_net();
  const auto before = net[0]->as<torch::nn::Linear>()->weight.detach().clone();
  const void* memory = net[0]->as<torch::nn::Linear>()->weight.data_ptr();
  GenomicBottleneck bottleneck(*net, registry, small_options());
  EXPECT_TRUE(at::equal(net[0]->as<torch::nn::Linear>()->weight, before));
  bottleneck.predict_weights();
  EXPECT_FALSE(at::equal(net[0]->as<torch::nn::Linear>()->weight, before));
  EXPECT_EQ(net[0]->as<torch::nn::Linear>()->weight.data_ptr(), memory);
}

/// d(loss)/d(theta) by central differences, against backward(), whose gradients have torchGB's
/// factor: 1 over a tile's positions and the variance that its g-net is scaled to.
void expect_gradient(GenomicBottleneck& bottleneck, const std::function<torch::Tensor()>& loss) {
  // Far from relu's kinks, where differences say nothing; the kernels' own tests have the kinks.
  for (const auto& layer : bottleneck.layers()) {
    const at::NoGradGuard no_grad;
    const std::int64_t width = layer.spec.hidden[0];
    layer.theta.narrow(1, gnet_inputs(layer.spec) * width, width).fill_(2);
  }
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  loss().backward();
  bottleneck.backward();
  constexpr float kStep = 1e-3f;
  int checked = 0;
  for (const auto& layer : bottleneck.layers()) {
    const double deviation = layer.spec.output_scale / 2;
    const double factor =
        1 / (static_cast<double>(layer.spec.grid().positions()) * deviation * deviation);
    float* theta = layer.theta.data_ptr<float>();
    for (std::int64_t i = 0; i < layer.theta.numel(); i += 2) {
      const float kept = theta[i];
      double values[2];
      for (int side = 0; side < 2; ++side) {
        theta[i] = kept + (side ? kStep : -kStep);
        bottleneck.predict_weights();
        values[side] = loss().item<double>();
      }
      theta[i] = kept;
      const double numeric = (values[1] - values[0]) / (2 * kStep);
      const double analytic = layer.grad.flatten()[i].item<double>() / factor;
      EXPECT_NEAR(analytic, numeric, 2e-3 + 2e-2 * std::fabs(numeric)) << layer.name << " " << i;
      checked += std::fabs(numeric) > 1e-3;
    }
  }
  EXPECT_GT(checked, 3) << "the gradients are too small to tell anything";
}

TEST(Bottleneck, BackwardMatchesFiniteDifferences) {
  const Registry registry = test_registry();
  auto net = small_net();
  BottleneckOptions options = small_options();
  for (const char* kernel : {"fused", "reference"}) {
    options.kernel = kernel;
    GenomicBottleneck bottleneck(*net, registry, options);
    const auto x = torch::randn({40, 12}) * 3;
    const auto y = torch::randint(5, {40});
    expect_gradient(bottleneck, [&] { return loss_of(net, x, y); });
  }
}

TEST(Bottleneck, AKernelThatThereIsNotIsNamed) {
  const Registry registry = test_registry();
  auto net = small_net();
  BottleneckOptions options = small_options();
  const auto refusal = [&](const char* kernel) -> std::string {
    options.kernel = kernel;
    try {
      const GenomicBottleneck made(*net, registry, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("none"), "kernel none is not known; use fused, cuda or reference");
  const std::string cuda = refusal("cuda");  // "" with the module and a GPU
  if (!cuda.empty()) {
    EXPECT_NE(cuda.find("use kernel fused"), std::string::npos) << cuda;
  }
}

TEST(Bottleneck, BackwardGoesThroughABuildOfItsOwn) {
  const Registry registry = test_registry();
  torch::manual_seed(2);
  Symmetric module(24);
  BottleneckOptions options = small_options();
  GenomicBottleneck bottleneck(*module, registry, options);
  ASSERT_EQ(bottleneck.layers().size(), 1u);
  const auto x = torch::randn({8, 24}), y = torch::randn({8, 24});
  expect_gradient(bottleneck, [&] { return (module->forward(x) - y).square().mean(); });
  EXPECT_TRUE(at::allclose(module->weight, module->weight.t()));
}

TEST(Bottleneck, FiveVerbsLearn) {
  const Registry registry = test_registry();
  auto net = small_net();
  BottleneckOptions options = small_options();
  options.gnet_optimizer.lr = 2e-2;
  options.plain_optimizer.lr = 1e-2;
  GenomicBottleneck bottleneck(*net, registry, options);
  const auto x = torch::randn({200, 12});
  const auto y = x.narrow(1, 0, 5).argmax(1);
  const auto bias = net[0]->as<torch::nn::Linear>()->bias.detach().clone();
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    auto loss = loss_of(net, x, y);
    (step ? last : first) = loss.item<double>();
    loss.backward();
    bottleneck.backward();
    bottleneck.step();
  }
  EXPECT_LT(last, 0.7 * first);
  EXPECT_FALSE(at::equal(bias, net[0]->as<torch::nn::Linear>()->bias)) << "plain ones learn too";
}

TEST(Bottleneck, HalfPrecisionAndStridedParametersWork) {
  const Registry registry = test_registry();
  BottleneckOptions options = small_options();
  at::Tensor reference;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    NamedParameter p;
    torch::manual_seed(3);
    const at::Tensor values = torch::randn({30, 20});
    p.info = {"w", "weight", "", "Linear", {30, 20}, to_dtype(type), values.std().item<double>()};
    // Column-major memory of the same logical tensor.
    p.tensor = values.t().contiguous().t().to(type).requires_grad_();
    GenomicBottleneck bottleneck({p}, registry, options);
    ASSERT_EQ(bottleneck.layers().size(), 1u);
    bottleneck.predict_weights();
    if (type == at::kFloat) reference = p.tensor.detach().clone();
    EXPECT_TRUE(at::equal(p.tensor.detach(), reference.to(type)));
    p.tensor.mutable_grad() = at::ones_like(p.tensor);
    bottleneck.backward();
    EXPECT_GT(bottleneck.layers()[0].grad.abs().max().item<double>(), 0);
  }
}

TEST(Bottleneck, NonFiniteGradientNamesTheParameter) {
  const Registry registry = test_registry();
  auto net = small_net();
  GenomicBottleneck bottleneck(*net, registry, small_options());
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  auto weight = net[0]->as<torch::nn::Linear>()->weight;
  weight.mutable_grad() = at::zeros_like(weight);
  weight.mutable_grad()[3][4] = std::nan("");
  try {
    bottleneck.backward();
    FAIL() << "NaN went through";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::kNonFinite);
    EXPECT_NE(std::string(e.what()).find("0.weight"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("step 1"), std::string::npos) << e.what();
  }
}

TEST(Bottleneck, DescribesEveryTensorInOneLine) {
  const Registry registry = test_registry();
  auto net = small_net();
  GenomicBottleneck bottleneck(*net, registry, small_options());
  const std::string text = bottleneck.describe();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 4);
  EXPECT_NE(text.find("0.weight  20x12  linear  2 of 13x12  8-2-1  42          5.71"),
            std::string::npos)
      << text;
}

TEST(Bottleneck, RatioCountsParametersAndBytes) {
  const Registry registry = test_registry();
  auto net = small_net();
  GenomicBottleneck bottleneck(*net, registry, small_options());
  const Ratio ratio = bottleneck.ratio();
  EXPECT_DOUBLE_EQ(ratio.parameters, (240.0 + 20 + 100 + 5) / (42 + 125));
  const auto path = std::filesystem::temp_directory_path() / "gbc_ratio_test.gbz";
  bottleneck.finish();
  const auto bytes = bottleneck.save(path, {.overwrite = true});
  EXPECT_EQ(bytes, bottleneck.bytes());
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
  EXPECT_DOUBLE_EQ(ratio.bytes, 365 * 4.0 / static_cast<double>(bytes));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gbcompress
