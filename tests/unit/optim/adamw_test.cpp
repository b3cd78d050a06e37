#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

/// Algorithm 2 of Loshchilov and Hutter, one number at a time, in double.
struct PlainAdamW {
  AdamWOptions options;
  std::vector<double> x, m, v;
  int t = 0;

  void step(const std::vector<double>& g, double factor) {
    ++t;
    const double lr = options.lr * factor;
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = options.momentum * m[i] + (1 - options.momentum) * g[i];
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(options.momentum, t));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, t));
      x[i] -= lr * (m_hat / (std::sqrt(v_hat) + options.eps) + options.weight_decay * x[i]);
    }
  }
};

TEST(AdamW, FollowsTheFormulaForTenSteps) {
  torch::manual_seed(3);
  const AdamWOptions options{.lr = 0.02, .momentum = 0.8, .beta2 = 0.97, .weight_decay = 0.3};
  // 1,003 is no multiple of any vector width.
  at::Tensor parameters = torch::randn({1003}), start = parameters.clone();
  PlainAdamW plain{options, {}, std::vector<double>(1003), std::vector<double>(1003)};
  for (int i = 0; i < 1003; ++i) plain.x.push_back(start[i].item<float>());
  AdamW adamw({parameters}, options);
  for (int step = 0; step < 10; ++step) {
    at::Tensor gradient = torch::randn({1003}) * std::pow(10.0, step % 4 - 2);
    std::vector<double> g(1003);
    for (int i = 0; i < 1003; ++i) g[i] = gradient[i].item<float>();
    const double factor = 1.0 / (1 + step);
    adamw.step({gradient}, factor);
    plain.step(g, factor);
  }
  EXPECT_EQ(adamw.steps(), 10);
  double worst = 0, moved = 0;
  for (int i = 0; i < 1003; ++i) {
    worst = std::max(worst, std::abs(parameters[i].item<float>() - plain.x[i]));
    moved = std::max(moved, std::abs(start[i].item<float>() - plain.x[i]));
  }
  EXPECT_LT(worst, 2e-6);
  EXPECT_GT(moved, 0.02) << "the comparison would pass without any step";
}

TEST(Sgd, StepsAsLibTorchs) {
  torch::manual_seed(6);
  // 1,003 is no multiple of any vector width.
  at::Tensor ours = torch::randn({1003}), start = ours.clone();
  at::Tensor theirs = ours.clone().requires_grad_();
  torch::optim::SGD reference({theirs},
                              torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-2));
  AdamW sgd({ours},
            {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-2, .optimizer = OptimizerRule::kSgd});
  for (int step = 0; step < 10; ++step) {
    theirs.mutable_grad() = torch::randn({1003});
    sgd.step({theirs.grad().clone()});
    reference.step();
  }
  EXPECT_LT((ours - theirs).abs().max().item<float>(), 2e-6);
  EXPECT_GT((ours - start).abs().max().item<float>(), 0.1) << "nothing moved";
}

TEST(Sgd, StateBringsBackTheVelocity) {
  const AdamWOptions options{.lr = 0.1, .weight_decay = 0, .optimizer = OptimizerRule::kSgd};
  at::Tensor a = torch::ones({70}), b = a.clone();
  AdamW first({a}, options);
  first.step({torch::ones({70})});
  b.copy_(a);
  AdamW second({b}, options);
  second.restore(first.state());
  first.step({torch::ones({70})});
  second.step({torch::ones({70})});
  EXPECT_TRUE(torch::equal(a, b));
  EXPECT_NEAR(a[69].item<float>(), 1 - 0.1 - 0.1 * 1.9, 1e-6);
}

TEST(Sgd, BitsDoNotDependOnWhereAVectorBegins) {
  torch::manual_seed(7);
  const AdamWOptions options{
      .lr = 0.03, .momentum = 0.7, .weight_decay = 0.1, .optimizer = OptimizerRule::kSgd};
  at::Tensor whole = torch::randn({77}), parts = whole.clone();
  AdamW one({whole}, options), two({parts.narrow(0, 0, 13), parts.narrow(0, 13, 64)}, options);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor g = torch::randn({77});
    one.step({g});
    two.step({g.narrow(0, 0, 13), g.narrow(0, 13, 64)});
  }
  EXPECT_TRUE(torch::equal(whole, parts));
}

TEST(AdamW, DecayIsDecoupledFromTheGradient) {
  at::Tensor parameters = torch::full({5}, 2.0f);
  AdamW adamw({parameters}, {.lr = 0.1, .weight_decay = 0.5});
  adamw.step({torch::zeros({5})});
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(parameters[i].item<float>(), 1.9, 1e-6);
}

TEST(AdamW, UpdatesALeafInPlaceAndLeavesNoGraph) {
  at::Tensor leaf = torch::ones({2, 3}, torch::requires_grad());
  AdamW adamw({leaf}, {.lr = 0.1, .weight_decay = 0});
  (leaf * leaf).sum().backward();
  adamw.step({leaf.grad()});
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_NEAR(leaf[1][2].item<float>(), 0.9, 1e-5);
}

TEST(AdamW, AnEmptyBufferIsFine) {
  AdamW adamw({torch::zeros({0})}, {});
  EXPECT_NO_THROW(adamw.step({torch::zeros({0})}));
}

TEST(AdamW, RefusesWhatItCannotWorkWith) {
  const at::Tensor three = torch::zeros({3});
  auto construct = [](at::Tensor t, AdamWOptions o) { return code_of([&] { AdamW({t}, o); }); };
  EXPECT_EQ(construct(torch::zeros({3}, torch::kLong), {}), Errc::kUsage);
  EXPECT_EQ(construct(torch::zeros({4, 4}).t().slice(0, 0, 2), {}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.lr = -1}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.lr = std::numeric_limits<double>::quiet_NaN()}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.momentum = 1}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.beta2 = -0.1}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.eps = 0}), Errc::kUsage);
  EXPECT_EQ(construct(three, {.weight_decay = -1}), Errc::kUsage);
  AdamW adamw({three}, {});
  EXPECT_EQ(code_of([&] { adamw.step({torch::zeros({4})}); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { adamw.step({}); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { adamw.step({three}, -1); }), Errc::kUsage);
  EXPECT_EQ(adamw.steps(), 0);
}

TEST(AdamW, AParameterWithoutAGradientKeepsItsValueAndItsCount) {
  at::Tensor a = torch::ones({4}), b = torch::ones({4});
  AdamW adamw({a, b}, {.lr = 0.1});
  adamw.step({torch::ones({4}), at::Tensor()});
  EXPECT_EQ(adamw.state().steps, (std::vector<std::int64_t>{1, 0}));
  EXPECT_TRUE(torch::equal(b, torch::ones({4})));
  EXPECT_FALSE(torch::equal(a, b));
}

TEST(AdamW, AGradientMayLieOtherwiseThanItsParameter) {
  torch::manual_seed(5);
  const at::Tensor gradient = torch::randn({6, 9});
  at::Tensor rows = torch::ones({6, 9}), columns = torch::ones({9, 6}).t();
  AdamW({rows}, {.lr = 0.1}).step({gradient});
  AdamW({columns}, {.lr = 0.1}).step({gradient});
  EXPECT_TRUE(torch::allclose(rows, columns, 1e-6, 1e-7));
  EXPECT_FALSE(torch::allclose(rows, torch::ones({6, 9})));
}

TEST(AdamW, ARestoredStateGoesOnWithTheSameBits) {
  torch::manual_seed(4);
  at::Tensor one = torch::randn({301}), two = torch::randn({7, 5});
  AdamW first({one, two}, {.lr = 0.02});
  const auto gradients = [](int step) {
    torch::manual_seed(step);
    return std::vector<at::Tensor>{torch::randn({301}), torch::randn({7, 5})};
  };
  for (int step = 0; step < 3; ++step) first.step(gradients(step));
  at::Tensor one_copy = one.clone(), two_copy = two.clone();
  AdamW second({one_copy, two_copy}, {.lr = 0.02});
  second.restore(first.state());
  for (int step = 3; step < 6; ++step) {
    first.step(gradients(step));
    second.step(gradients(step));
  }
  EXPECT_TRUE(torch::equal(one, one_copy));
  EXPECT_TRUE(torch::equal(two, two_copy));
  AdamW fresh({one_copy.clone()}, {});
  EXPECT_EQ(code_of([&] { fresh.restore(first.state()); }), Errc::kShapeMismatch);
}

TEST(AdamW, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(6);
  const at::Tensor start = torch::randn({200'003}), gradient = torch::randn({200'003});
  std::vector<at::Tensor> results;
  const int threads = at::get_num_threads();
  for (int count : {1, 2, 3, 4}) {
    at::set_num_threads(count);
    results.push_back(start.clone());
    AdamW adamw({results.back()}, {.lr = 0.05});
    for (int step = 0; step < 3; ++step) adamw.step({gradient}, 1.0 / (step + 1));
  }
  at::set_num_threads(threads);
  for (std::size_t i = 1; i < results.size(); ++i)
    EXPECT_TRUE(torch::equal(results[0], results[i]));
}

TEST(AdamW, GivesTheSameBitsHoweverParametersAreCut) {
  torch::manual_seed(7);
  const at::Tensor start = torch::randn({1009});
  at::Tensor whole = start.clone(), parts = start.clone();
  std::vector<at::Tensor> cut;
  std::int64_t at = 0;
  for (const std::int64_t size : {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 24}) {
    cut.push_back(parts.narrow(0, at, size));
    at += size;
  }
  ASSERT_EQ(at, whole.numel());
  AdamW one({whole}, {.lr = 0.05}), many(cut, {.lr = 0.05});
  for (int step = 0; step < 20; ++step) {
    const at::Tensor gradient = torch::randn({1009});
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& piece : cut)
      pieces.push_back(gradient.narrow(0, piece.storage_offset(), piece.numel()));
    one.step({gradient});
    many.step(pieces);
  }
  EXPECT_TRUE(torch::equal(whole, parts));
  EXPECT_FALSE(torch::equal(whole, start));
}

}  // namespace
}  // namespace gbcompress
