/// Difference target propagation with inverses in published form, beside the formulas by hand.
#include <map>

#include "plugin/dtp_training.h"

namespace gbcompress {
namespace {

using test::expect_has;
using test::host;
using test::refusal;
using test::Training;

/// Feedback weights of all stages, by the stage's name.
std::map<std::string, at::Tensor> feedback_weights(const Training& run) {
  std::map<std::string, at::Tensor> found;
  for (const StateEntry& entry : run.strategy->aux_state())
    if (entry.name.ends_with("#feedback"))
      found[entry.name.substr(0, entry.name.find('#'))] = entry.value.clone();
  return found;
}

at::Tensor parameter(const Training& run, const std::string& name) {
  for (const NamedParameter& p : run.model->tensors())
    if (p.info.name == name) return p.tensor.detach();
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

TEST(DtpPublished, ActivationsAndPoolsGiveTheirLoss) {
  // One stage conv, ELU, pool behind another, by hand: L = mean of -2 dx (r_x - r) + (r_y - r)^2.
  Training run("simple-vgg:2", "inverse=published K=1 momentum=0 feedback_lr=0.01 sigma=0.1",
               {3, 32, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor before = feedback_weights(run).at("conv2");
  {
    const c10::AutoGradMode with_grad(true);
    run.step();
  }
  const at::Tensor after = feedback_weights(run).at("conv2");

  const std::vector<Stage>& stages = run.model->stages();
  const at::Tensor x = stages[0].forward(run.batch.inputs);
  const at::Tensor kernel = parameter(run, "conv2.0.weight"), bias = parameter(run, "conv2.0.bias");
  const auto forward = [&](const at::Tensor& in) {
    return at::max_pool2d_with_indices(at::elu(at::conv2d(in, kernel, bias, 1, 1)), 2);
  };
  at::Tensor w = before.clone();
  const auto [y, places] = forward(x);
  const auto noise = [&](const char* purpose, const at::Tensor& like) {
    return normal_noise({3, purpose, "conv2#0", 0}, run.batch.samples,
                        like.sizes().slice(1).vec()) *
           0.1;
  };
  const at::Tensor dx = noise("dtp.input", x), dy = noise("dtp.output", y);
  const auto [noisy, noisy_places] = forward(x + dx);
  {
    const c10::AutoGradMode with_grad(true);
    w.requires_grad_(true);
    const at::Tensor back = w.narrow(0, 0, kernel.numel()).view(kernel.sizes()),
                     shift = w.narrow(0, kernel.numel(), x.size(1));
    const auto g = [&](const at::Tensor& in, const at::Tensor& at_places) {
      const at::Tensor up = at::max_unpool2d(in.contiguous(), at_places.contiguous(), {16, 16});
      return at::conv_transpose2d(at::elu(up), back, shift, 1, 1);
    };
    const at::Tensor r = g(y, places);
    const at::Tensor loss =
        (-2 * (dx * (g(noisy, noisy_places) - r)).sum() + (g(y + dy, places) - r).square().sum()) /
        32;
    loss.backward();
  }
  EXPECT_GT((after - before).norm().item<double>(), 1e-5);
  EXPECT_TRUE(at::allclose(after, before - 0.01 * w.grad(), 1e-4, 1e-6));
}

/// A batch norm with statistics of its own.
at::Tensor own_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::batch_norm(x, weight, bias, {}, {}, true, 0, 1e-5, false);
}

/// The mirrored block of the published code, from the weights of its feedback network in the order
/// of the block's layers.
at::Tensor mirrored_block(const at::Tensor& y, const at::Tensor& weights, std::int64_t inputs) {
  std::int64_t at = 0;
  const std::int64_t outputs = y.size(1);
  const auto take = [&](std::vector<std::int64_t> shape) {
    const std::int64_t size = c10::multiply_integers(shape);
    return weights.narrow(0, std::exchange(at, at + size), size).view(shape);
  };
  const at::Tensor conv1 = take({outputs, inputs, 3, 3}), bias1 = take({inputs}),
                   scale1 = take({outputs}), shift1 = take({outputs}),
                   conv2 = take({outputs, outputs, 3, 3}), bias2 = take({outputs}),
                   scale2 = take({outputs}), shift2 = take({outputs});
  EXPECT_EQ(at, weights.numel());
  const std::int64_t stride = inputs == outputs ? 1 : 2;
  const at::Tensor sum = at::relu(y);
  at::Tensor x = at::conv_transpose2d(own_norm(sum, scale2, shift2), conv2, bias2, 1, 1);
  x = at::conv_transpose2d(own_norm(at::relu(x), scale1, shift1), conv1, bias1, stride, 1,
                           stride - 1);
  if (stride == 1) return x + sum;
  // Every second pixel; the planes between those that the shortcut has added.
  at::Tensor back = at::zeros_like(x);
  back.slice(2, 0, c10::nullopt, 2)
      .slice(3, 0, c10::nullopt, 2)
      .copy_(sum.narrow(1, (outputs - inputs) / 2, inputs));
  return x + back;
}

TEST(DtpPublished, ResidualBlocksAndBatchNormsGiveTheirLoss) {
  for (const std::size_t number : {1, 4}) {  // layer1.0; layer2.0, which halves its input
    std::string k = "K=";
    for (std::size_t i = 1; i <= 10; ++i) k += i == number ? "1," : "0,";
    k.back() = ' ';
    Training run("resnet20", k + "inverse=published momentum=0 feedback_lr=0.01 sigma=1",
                 {3, 32, 32});
    const std::vector<Stage>& stages = run.model->stages();
    const std::string name = stages[number].name;
    const at::Tensor before = feedback_weights(run).at(name);
    const double measured = run.step().more.at("feedback_loss");
    const at::Tensor after = feedback_weights(run).at(name);

    at::Tensor w = before.clone(), x = run.batch.inputs;
    {
      const c10::NoGradGuard no_grad;
      for (std::size_t i = 0; i < number; ++i) x = stages[i].forward(x);
    }
    const auto noise = [&](const char* purpose, const at::Tensor& like) {
      return normal_noise({3, purpose, name + "#0", 0}, run.batch.samples,
                          like.sizes().slice(1).vec()) *
             1.0;
    };
    const at::Tensor y = stages[number].forward(x).detach(), dx = noise("dtp.input", x),
                     dy = noise("dtp.output", y), noisy = stages[number].forward(x + dx).detach();
    w.requires_grad_(true);
    const auto g = [&](const at::Tensor& in) { return mirrored_block(in, w, x.size(1)); };
    const at::Tensor r = g(y);
    const at::Tensor loss =
        (-2 * (dx * (g(noisy) - r)).sum() + (g(y + dy) - r).square().sum()) / 32;
    loss.backward();
    EXPECT_NEAR(measured / loss.item<double>(), 1, 1e-4) << name;
    const at::Tensor change = before - after, wanted = 0.01 * w.grad();
    EXPECT_LT((change - wanted).norm().item<double>(), 1e-4 * wanted.norm().item<double>()) << name;
  }
}

TEST(DtpPublished, IsRefusedByTheLayersName) {
  const auto with_tanh = [] {
    Registry& registry = const_cast<Registry&>(host().registry());
    if (!registry.models().contains("tanh"))
      registry.stage("tanh", [](Registrar& r) {
        r.register_model("tanh", [](const ModelRequest&) {
          torch::nn::Linear a(64, 20), b(20, 20), c(20, 10);
          torch::nn::ReLU relu;
          torch::nn::Tanh tanh;
          torch::nn::Sequential all(a, relu, b, tanh, c);
          const auto stage = [](const char* name, torch::nn::Sequential layers) {
            return Stage{name, [layers](const at::Tensor& x) mutable { return layers->forward(x); },
                         layers.ptr()};
          };
          return BuiltModel{
              all.ptr(),
              [all](const at::Tensor& x) mutable { return all->forward(x); },
              {64},
              {stage("a", torch::nn::Sequential(a, relu)),
               stage("b", torch::nn::Sequential(b, tanh)), stage("c", torch::nn::Sequential(c))}};
        });
      });
    return build_model("tanh", registry);
  };
  expect_has(test::usage_refusal("tanh", [&] { Training(with_tanh(), "inverse=published", {64}); }),
             {"stage b", "holds a Tanh", "BatchNorm2d", "residual blocks", "published form",
              "leave out inverse=published", "Tanh#published"});
  expect_has(refusal("mlp:64-48-32-10", "inverse=exact"), {"inverse", "transpose or published"});
}

TEST(DtpPublished, TrainsEveryVariant) {
  for (const char* variant : {"dtp", "vanilla", "tp", "parallel"}) {
    Training run("lenet-dtp", std::string("inverse=published K=1 variant=") + variant, {1, 28, 28});
    EXPECT_TRUE(std::isfinite(run.step().more.at("feedback_loss"))) << variant;
  }
}

}  // namespace
}  // namespace gbcompress
