// Associated layers against the published algorithm written with LibTorch's own modules and Adam.
#include "gbcompress/associated.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

namespace nn = torch::nn;

/// One layer's modules; two with the same seed are equal.
struct Modules {
  Modules(std::int64_t inputs, std::int64_t outputs, std::int64_t before, std::int64_t width,
          std::uint64_t seed) {
    torch::manual_seed(seed);
    f = nn::Sequential(nn::Linear(inputs, outputs), nn::ReLU());
    b = nn::Sequential(nn::Linear(outputs, width), nn::Sigmoid());
    g = nn::Sequential(nn::Linear(before, width), nn::Sigmoid());
    h = nn::Sequential(nn::Linear(width, before), nn::Sigmoid());
  }
  AssociatedParts parts() const { return {part_of(f), part_of(b), part_of(g), part_of(h)}; }
  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> result;
    for (const nn::Sequential& one : {f, b, g, h})
      for (const at::Tensor& p : one->parameters()) result.push_back(p);
    return result;
  }
  nn::Sequential f, b, g, h;
};

std::vector<at::Tensor> parameters_of(const nn::Sequential& a, const nn::Sequential& b) {
  std::vector<at::Tensor> all = a->parameters();
  for (const at::Tensor& p : b->parameters()) all.push_back(p);
  return all;
}

AssociatedLayer::Signals batch(std::int64_t step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  return {torch::randn({12, 7}), torch::one_hot(torch::randint(4, {12}), 4).to(torch::kFloat)};
}

/// The losses of the published code.
AssociatedOptions published() {
  AssociatedOptions options;
  options.bridge_loss =
      options.code_loss = [](const at::Tensor& given, const at::Tensor& expected) {
        return torch::mse_loss(given, expected);
      };
  return options;
}

TEST(Associated, LossesAreByDefaultThoseOfTheStrategy) {
  const Modules modules(7, 9, 4, 5, 1);
  nn::Sequential f = modules.f, b = modules.b, g = modules.g, h = modules.h;
  const auto in = batch(0);
  const at::Tensor code = g->forward(in.code), scores = h->forward(code);
  const auto nats = [](const at::Tensor& difference) {
    return (0.5 * difference.square().sum(1)).mean().item<double>();
  };
  AssociatedLayer layer(modules.parts());
  layer.forward(in);
  EXPECT_NEAR(layer.bridge_loss(), nats(b->forward(f->forward(in.signal)) - code), 1e-6);
  EXPECT_NEAR(layer.code_loss(), nats(scores - in.code), 1e-6);
  AssociatedOptions first;
  first.first = true;
  AssociatedLayer reads_labels(modules.parts(), first);
  reads_labels.forward(in);
  EXPECT_EQ(reads_labels.bridge_loss(), layer.bridge_loss());
  EXPECT_NEAR(reads_labels.code_loss(),
              -(in.code * scores.log_softmax(1)).sum(1).mean().item<double>(), 1e-6);
}

TEST(Associated, ALayerLearnsAsThePublishedOne) {
  const Modules ours(7, 9, 4, 5, 1), theirs(7, 9, 4, 5, 1);
  AssociatedLayer layer(ours.parts(), published());
  torch::optim::Adam encoder(parameters_of(theirs.f, theirs.b), 1e-3),
      autoencoder(parameters_of(theirs.g, theirs.h), 1e-3);
  nn::Sequential f = theirs.f, b = theirs.b, g = theirs.g, h = theirs.h;
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto in = batch(step);
    const auto next = layer.forward(in);
    const at::Tensor code = g->forward(in.code);
    const at::Tensor code_loss = torch::mse_loss(h->forward(code), in.code);
    const at::Tensor signal = f->forward(in.signal);
    const at::Tensor bridge_loss = torch::mse_loss(b->forward(signal), code.detach());
    EXPECT_NEAR(layer.code_loss(), code_loss.item<double>(), 1e-6);
    EXPECT_NEAR(layer.bridge_loss(), bridge_loss.item<double>(), 1e-6);
    EXPECT_TRUE(torch::allclose(next.signal, signal, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(next.code, code, 1e-5, 1e-6));
    EXPECT_FALSE(next.signal.requires_grad() || next.code.requires_grad());
    layer.backward_and_update();
    code_loss.backward();
    bridge_loss.backward();
    for (torch::optim::Optimizer* one :
         std::initializer_list<torch::optim::Optimizer*>{&autoencoder, &encoder}) {
      one->step();
      one->zero_grad();
    }
  }
  const auto a = ours.all(), expected = theirs.all();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::allclose(a[i], expected[i], 1e-4, 1e-6)) << i;
}

TEST(Associated, AChainAnswersThroughForwardBridgeAndBack) {
  const Modules one(7, 9, 4, 5, 1), two(9, 8, 5, 3, 2);
  std::vector<AssociatedLayer> layers;
  layers.emplace_back(one.parts());
  layers.emplace_back(two.parts());
  const at::Tensor x = batch(0).signal;
  nn::Sequential f1 = one.f, h1 = one.h, b1 = one.b, f2 = two.f, b2 = two.b, h2 = two.h;
  const at::Tensor expected = h1->forward(h2->forward(b2->forward(f2->forward(f1->forward(x)))));
  EXPECT_TRUE(torch::allclose(infer(layers, x), expected));
  EXPECT_TRUE(torch::allclose(infer(std::span(layers).first(1), x),
                              h1->forward(b1->forward(f1->forward(x)))));
}

TEST(Associated, LossesAndRatesAreTheCallers) {
  const Modules modules(7, 9, 4, 5, 3);
  AssociatedOptions options;
  options.code_loss = [](const at::Tensor& given, const at::Tensor& expected) {
    return torch::cross_entropy_loss(given, expected.argmax(1));
  };
  AssociatedLayer layer(modules.parts(), options);
  layer.forward(batch(0));
  EXPECT_GT(layer.code_loss(), 1) << "a cross-entropy near ln 4";
  layer.set_rates(0, 1);
  const at::Tensor f = modules.f->parameters()[0].clone(), g = modules.g->parameters()[0].clone();
  layer.backward_and_update();
  EXPECT_TRUE(torch::equal(f, modules.f->parameters()[0]));
  EXPECT_FALSE(torch::equal(g, modules.g->parameters()[0]));
}

TEST(Associated, WrongUseIsRefused) {
  const Modules modules(7, 9, 4, 5, 4);
  AssociatedParts parts = modules.parts();
  AssociatedLayer layer(parts);
  EXPECT_EQ(code_of([&] { layer.backward(); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { layer.update(); }), Errc::kUsage);
  layer.forward(batch(0));
  EXPECT_EQ(code_of([&] { layer.update(); }), Errc::kUsage) << "no gradients yet";
  layer.backward();
  EXPECT_EQ(code_of([&] { layer.backward(); }), Errc::kUsage) << "twice";
  EXPECT_EQ(code_of([&] { layer.set_rates(-1, 1); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { infer({}, torch::zeros({1, 7})); }), Errc::kUsage);
  AssociatedParts shared = parts;
  shared.h = shared.g;
  EXPECT_EQ(code_of([&] { AssociatedLayer one(shared); }), Errc::kUsage);
  AssociatedParts empty = parts;
  empty.b.forward = nullptr;
  EXPECT_EQ(code_of([&] { AssociatedLayer one(empty); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
