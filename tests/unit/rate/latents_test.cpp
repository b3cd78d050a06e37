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
