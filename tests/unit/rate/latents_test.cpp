#include "rate/latents.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "gbcompress/optimizer.h"

namespace gbcompress {
namespace {

at::Tensor leaf(at::IntArrayRef sizes, std::uint64_t seed) {
  at::manual_seed(seed);
  return at::randn(sizes).mul_(0.3).requires_grad_();
}

TEST(Latents, WriteMultiplesOfTheStepNearTheValues) {
  at::Tensor w = leaf({30, 50}, 1);
  const at::Tensor before = w.detach().clone();
  Latents latents(0);
  latents.add("w", w);
  latents.predict();
  const CodedValues coded = latents.coded(0);
  const float step = step_size(coded.step);
  EXPECT_NEAR(step, 0.2 * 0.3, 0.2 * 0.3 * 0.1);
  EXPECT_LE((w.detach() - before).abs().max().item<float>(), step * 0.5001f);
  ASSERT_EQ(coded.integers.size(), 1500u);
  for (std::size_t i = 0; i < coded.integers.size(); ++i)
    EXPECT_EQ(static_cast<float>(coded.integers[i]) * step,
              w.detach().view(-1)[static_cast<std::int64_t>(i)].item<float>());
}

TEST(Latents, HalfPrecisionAndTransposedTensorsAreWrittenToo) {
  at::Tensor half = leaf({8, 9}, 2).detach().to(at::kHalf).requires_grad_();
  at::Tensor turned = leaf({8, 9}, 3).detach().t().requires_grad_();
  Latents latents(0);
  latents.add("half", half);
  latents.add("turned", turned);
  latents.predict();
  for (std::size_t i = 0; i < 2; ++i) {
    const CodedValues coded = latents.coded(i);
    const at::Tensor expected = at::tensor(coded.integers).mul(step_size(coded.step));
    const at::Tensor& tensor = i ? turned : half;
    EXPECT_TRUE(at::equal(tensor.detach().reshape({-1}), expected.to(tensor.scalar_type())));
  }
}

TEST(Latents, TrainTowardsZeroUnderTheRateAlone) {
  at::Tensor w = leaf({40, 40}, 4);
  Latents latents(7);
  latents.add("w", w);
  AdamW optimizer(latents.values(), {.lr = 1e-2, .weight_decay = 0});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    latents.predict();
    w.mutable_grad() = at::zeros_like(w.detach());
    latents.expect(/*contexts=*/false);
    latents.backward(1e-3, static_cast<std::uint64_t>(step));
    if (step == 0) first = latents.bits();
    last = latents.bits();
    optimizer.step(latents.gradients());
  }
  EXPECT_GT(first, 1600 * 2);
  EXPECT_LT(last, first / 10);
}

TEST(Latents, KeepWhatTheTaskNeeds) {
  // Half of the numbers matter to the loss, the others do not: bits go where they matter.
  at::Tensor w = leaf({1, 400}, 5);
  const at::Tensor wanted = w.detach().clone();
  const at::Tensor matters = (at::arange(400) % 2 == 0).to(at::kFloat).view({1, 400});
  Latents latents(7);
  latents.add("w", w);
  AdamW optimizer(latents.values(), {.lr = 1e-2, .weight_decay = 0});
  for (int step = 0; step < 400; ++step) {
    latents.predict();
    w.mutable_grad() = 2 * matters * (w.detach() - wanted);
    latents.expect(/*contexts=*/false);
    latents.backward(2e-3, static_cast<std::uint64_t>(step));
    optimizer.step(latents.gradients());
  }
  latents.predict();
  const at::Tensor error = (w.detach() - wanted).square();
  EXPECT_LT((error * matters).sum().item<double>(),
            0.2 * wanted.square().mul(matters).sum().item<double>());
  EXPECT_LT((w.detach() * (1 - matters)).count_nonzero().item<std::int64_t>(), 20);
}

TEST(Latents, SameBitsForAnyNumberOfThreads) {
  std::vector<at::Tensor> results;
  for (const int threads : {1, 2, 4}) {
    at::set_num_threads(threads);
    at::Tensor w = leaf({300, 401}, 6);
    Latents latents(7);
    latents.add("w", w);
    latents.predict();
    w.mutable_grad() = at::sin(w.detach());
    latents.expect(false);
    latents.backward(1e-3, 3);
    results.push_back(at::cat({latents.gradients()[0].view(-1), latents.gradients()[1]}));
  }
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_TRUE(at::equal(results[0], results[2]));
}

/// 20 x 64 numbers near 0.1 with a prior that expects 0.08 and, if asked, deviations.
struct WithPrior {
  explicit WithPrior(bool deviations) : w(leaf({20, 64}, 9)), latents(7) {
    w.detach().mul_(0.2).add_(0.1);
    latents.add("w", w);
    latents.add_prior(0, deviations, 0.05);
    prior()->mean.fill_(0.08);
    if (deviations) prior()->log_deviation.copy_(at::randn({20, 64}));
  }
  Latents::Prior* prior() { return latents.prior(0); }
  at::Tensor w;
  Latents latents;
};

TEST(Latents, PriorsAreAddedToMultiplesOfTheStep) {
  WithPrior p(false);
  const at::Tensor before = p.w.detach().clone();
  p.latents.predict();
  const CodedValues coded = p.latents.coded(0);
  const float step = step_size(coded.step);
  EXPECT_LE((p.w.detach() - before).abs().max().item<float>(), step * 0.5001f);
  const at::Tensor expected =
      at::tensor(coded.integers).view({20, 64}).to(at::kFloat).mul(step) + p.prior()->mean;
  EXPECT_TRUE(at::equal(p.w.detach(), expected));
  const double error = ((p.w.detach() - before).to(at::kDouble).square().sum() /
                        before.to(at::kDouble).square().sum())
                           .item<double>();
  EXPECT_NEAR(p.latents.relative_error(), error, 1e-4 * error);
}

TEST(Latents, GradientOfAPriorsMeanIsThatOfTheBits) {
  WithPrior p(false);
  const double weight = 0.01, move = 1e-3;
  const auto bits = [&](double moved) {
    p.prior()->mean.fill_(0.08 + moved);
    p.w.mutable_grad() = at::ones_like(p.w.detach());
    p.latents.backward(weight, 5);  // the same noise each time
    return p.latents.bits();
  };
  const double numeric = weight * (bits(move) - bits(-move)) / (2 * move);
  bits(0);
  EXPECT_NEAR(p.prior()->mean_gradient.sum().item<double>(), numeric,
              0.02 * std::fabs(numeric) + 1e-3);
  EXPECT_GT(std::fabs(numeric), 0.1);
  // What the latent receives beside the task's gradient is the same with the other sign.
  EXPECT_TRUE(at::allclose(p.latents.gradients()[0] - 1, -p.prior()->mean_gradient, 1e-4, 1e-6));
}

TEST(Latents, DeviationsFollowTheMagnitudesOfWhatIsLeft) {
  WithPrior p(true);
  at::Tensor& s = p.prior()->log_deviation;
  for (int i = 0; i < 4000; ++i) {
    p.latents.fit_priors();
    s.sub_(p.prior()->log_deviation_gradient * 20);
  }
  // At the likeliest deviation the scale is the mean magnitude, noise included.
  const double step = static_cast<double>(step_size(p.latents.coded(0).step));
  const at::Tensor u = (p.w.detach() - 0.08).abs() / step;
  const at::Tensor expected = at::where(u.lt(0.5), u.square() + 0.25, u) * step / 0.05;
  EXPECT_TRUE(at::allclose(s.exp(), expected, 0.02, 0.01));
}

TEST(Latents, QuantizedIntegersAreWhatTheErrorSaysForAnyNumberOfThreads) {
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis}) {
    std::vector<std::vector<std::int32_t>> results;
    std::vector<double> errors;
    for (const int threads : {1, 3}) {
      at::set_num_threads(threads);
      at::Tensor w = leaf({500, 411}, 9), v = leaf({64}, 10);
      const at::Tensor before = w.detach().clone(), bias = v.detach().clone();
      Latents latents(0);
      latents.add("w", w);
      latents.add("v", v);
      latents.quantize(0.1, 0, quantizer);
      latents.predict();
      const double error = (w.detach() - before).square().sum().item<double>() +
                           (v.detach() - bias).square().sum().item<double>();
      const double squares =
          before.square().sum().item<double>() + bias.square().sum().item<double>();
      EXPECT_NEAR(latents.relative_error(), error / squares, 1e-4 * error / squares);
      EXPECT_EQ(latents.coded(0).grid.dependent, quantizer == Quantizer::kTrellis);
      results.push_back(latents.coded(0).integers);
      errors.push_back(latents.relative_error());
      if (quantizer == Quantizer::kNearest) {
        EXPECT_NEAR(latents.expected_error(0.1, 0), errors[0], 1e-3 * errors[0]);
      } else {
        EXPECT_LT(errors[0], 0.75 * latents.expected_error(0.1, 0));
      }
    }
    at::set_num_threads(1);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(errors[0], errors[1]);
  }
}

TEST(Latents, RowsFindStepsOfTheirOwn) {
  // The loss feels errors of the first rows more: their steps stay finer.
  at::Tensor w = leaf({8, 200}, 11);
  const at::Tensor wanted = w.detach().clone();
  const at::Tensor matters = at::pow(2.0, -at::arange(8).to(at::kFloat)).view({8, 1});
  Latents latents(7);
  latents.add("w", w, {}, /*row_steps=*/true);
  AdamW optimizer(latents.values(), {.lr = 2e-3, .weight_decay = 0});
  for (int step = 0; step < 400; ++step) {
    latents.predict();
    w.mutable_grad() = 2 * matters * (w.detach() - wanted);
    latents.expect(/*contexts=*/false);
    latents.backward(1e-3, static_cast<std::uint64_t>(step));
    optimizer.step(latents.gradients());
  }
  latents.predict();
  const CodedValues coded = latents.coded(0);
  ASSERT_EQ(coded.row_steps.size(), 8u);
  EXPECT_LT(coded.row_steps.front() + 8, coded.row_steps.back()) << "half an octave at least";
  const std::vector<float> stored = coded_floats(coded);
  for (std::size_t i = 0; i < stored.size(); ++i)
    ASSERT_EQ(stored[i], w.detach().view(-1)[static_cast<std::int64_t>(i)].item<float>());
}

TEST(Latents, ChosenIntegersHoldUntilTheNextStep) {
  at::Tensor w = leaf({20, 64}, 8);
  Latents latents(7);
  latents.add("w", w);
  latents.predict();
  const at::Tensor nearest = w.detach().clone();
  IntegerEncoder few(CodecProfile::kSmall), all(CodecProfile::kSmall);
  latents.choose(0, 1.0, few);
  latents.predict();
  EXPECT_GT((w.detach() == 0).sum().item<std::int64_t>(),
            (nearest == 0).sum().item<std::int64_t>());
  latents.choose(0, 0, all);
  latents.predict();
  EXPECT_TRUE(at::equal(w.detach(), nearest));
}

}  // namespace
}  // namespace gbcompress
