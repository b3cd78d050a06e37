// The ensemble against N networks of LibTorch's own, trained one after another.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

torch::nn::Sequential separate_net(const EnsembleMlp& nets, std::int64_t index, bool tanh = false) {
  torch::nn::Sequential net;
  const auto values = nets.member(index);
  const torch::NoGradGuard no_grad;
  for (std::size_t l = 0; l < values.size(); l += 2) {
    if (l > 0 && tanh) net->push_back(torch::nn::Tanh());
    if (l > 0 && !tanh) net->push_back(torch::nn::ReLU());
    torch::nn::Linear linear(values[l].size(1), values[l].size(0));
    linear->weight.copy_(values[l]);
    linear->bias.copy_(values[l + 1]);
    net->push_back(linear);
  }
  return net;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

TEST(Ensemble, TanhBetweenLayersIfChosen) {
  const EnsembleMlp nets(3, {5, 8, 6, 2}, 4, Activation::kTanh), relus(3, {5, 8, 6, 2}, 4);
  torch::manual_seed(8);
  const at::Tensor x = torch::randn({9, 5});
  const at::Tensor outputs = nets.forward(x);
  for (std::int64_t m = 0; m < 3; ++m)
    EXPECT_LT(difference(outputs[m], separate_net(nets, m, true)->forward(x)), 1e-5);
  EXPECT_GT(difference(outputs, relus.forward(x)), 0.01) << "the activation has no effect";
}

class EnsembleTest : public ::testing::TestWithParam<bool> {};

TEST_P(EnsembleTest, TrainsAsNSeparateNetworksWithinRounding) {
  const bool shared = GetParam();
  constexpr std::int64_t kMembers = 7, kBatch = 19;
  EnsembleMlp nets(kMembers, {11, 16, 9, 4}, 3);
  std::vector<torch::nn::Sequential> separate;
  std::vector<std::vector<at::Tensor>> start;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    separate.push_back(separate_net(nets, m));
    start.push_back({});
    for (const auto& p : nets.member(m)) start.back().push_back(p.clone());
  }
  const AdamWOptions options{.lr = 1e-2, .weight_decay = 0.05};
  AdamW together(nets.parameters(), options);
  std::vector<AdamW> alone;
  for (auto& net : separate) alone.emplace_back(net->parameters(), options);

  torch::manual_seed(2);
  for (int step = 0; step < 5; ++step) {
    const at::Tensor x = shared ? torch::randn({kBatch, 11}) : torch::randn({kMembers, kBatch, 11});
    const at::Tensor y = torch::randint(4, {kMembers, kBatch});
    nets.zero_grad();
    const at::Tensor outputs = nets.forward(x);
    ASSERT_EQ(outputs.sizes(), (std::vector<std::int64_t>{kMembers, kBatch, 4}));
    at::Tensor loss = torch::zeros({});
    for (std::int64_t m = 0; m < kMembers; ++m)
      loss = loss + torch::nn::functional::cross_entropy(outputs[m], y[m]);
    loss.backward();
    for (std::int64_t m = 0; m < kMembers; ++m) {
      separate[m]->zero_grad();
      const at::Tensor own = separate[m]->forward(shared ? x : x[m]);
      EXPECT_LT(difference(outputs[m], own), 1e-4);
      torch::nn::functional::cross_entropy(own, y[m]).backward();
      std::vector<at::Tensor> gradients;
      for (const auto& p : separate[m]->parameters()) gradients.push_back(p.grad());
      alone[m].step(gradients);
    }
    together.step(nets.gradients());
  }
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const auto values = nets.member(m), expected = separate[m]->parameters();
    for (std::size_t p = 0; p < values.size(); ++p) {
      EXPECT_LT(difference(values[p], expected[p]), 1e-4);
      EXPECT_GT(difference(values[p], start[m][p]), 1e-2) << "nothing was learnt";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, EnsembleTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Shared" : "OneAMember"; });

TEST(EnsembleMlp, AMemberDoesNotDependOnTheOthers) {
  const EnsembleMlp few(2, {5, 3}, 9), many(6, {5, 3}, 9), other(2, {5, 3}, 10);
  for (std::int64_t m = 0; m < 2; ++m)
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_TRUE(at::equal(few.member(m)[p], many.member(m)[p]));
      EXPECT_FALSE(at::equal(few.member(m)[p], other.member(m)[p]));
    }
  EXPECT_FALSE(at::equal(many.member(0)[0], many.member(1)[0]));
  const at::Tensor weight = EnsembleMlp(50, {100, 40}).parameters()[0].detach();
  EXPECT_LE(weight.abs().max().item<double>(), 0.1);
  EXPECT_NEAR(weight.std().item<double>(), 0.1 / std::sqrt(3), 1e-3);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 1e-3);
}

TEST(EnsembleMlp, RefusesWhatCannotBe) {
  EXPECT_EQ(code_of([&] { EnsembleMlp(0, {3, 2}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { EnsembleMlp(2, {3}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { EnsembleMlp(2, {3, 0, 2}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { EnsembleMlp(1 << 20, {1 << 12, 1 << 12}); }), Errc::kLimit);
  const EnsembleMlp nets(2, {3, 4});
  EXPECT_EQ(code_of([&] { nets.forward(torch::zeros({5, 4})); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { nets.forward(torch::zeros({3, 5, 3})); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { nets.forward(torch::zeros({3})); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { nets.forward(torch::zeros({5, 3}, torch::kDouble)); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { nets.forward(at::Tensor()); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { nets.member(2); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
