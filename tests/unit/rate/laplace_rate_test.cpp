#include "rate/laplace_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace gbcompress {
namespace {

/// Bits of the interval of one step around u, by the distribution function in double.
double bits_of(double u, double b) {
  const auto cdf = [&](double x) {
    return x < 0 ? 0.5 * std::exp(x / b) : 1 - 0.5 * std::exp(-x / b);
  };
  const double x = std::fabs(u);  // symmetric; the lower tail keeps its precision
  return -std::log2(cdf(-x + 0.5) - cdf(-x - 0.5));
}

struct Case {
  std::vector<float> latent, inverse_scale, task;
  float step;
};

Case random_case(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Case c;
  c.step = 0.01f + 0.1f * std::fabs(uniform(random));
  for (std::size_t i = 0; i < n; ++i) {
    c.latent.push_back(c.step * 4 * uniform(random));
    c.inverse_scale.push_back(std::exp(-3 * uniform(random)));
    c.task.push_back(uniform(random));
  }
  return c;
}

/// The noise that the kernel draws, recovered from the rate of a single number: at scale 1 and far
/// from 0 bits are linear in |u + e|.
double noise_of(std::uint32_t key, std::uint32_t index) {
  const float latent = 8, inverse_scale = 1;
  float gradient = 0;
  const RateSums sums =
      laplace_rate({&latent, 1}, 1, {&inverse_scale, 1}, 0, key, index, {&gradient, 1});
  const double at_8 = bits_of(8, 1);
  return (sums.bits - at_8) * std::log(2.0);
}

TEST(LaplaceRate, CountsTheBitsOfTheNoisyInterval) {
  for (const std::size_t n : {1, 3, 16, 17, 100, 1000}) {
    const Case c = random_case(n, static_cast<unsigned>(n));
    std::vector<float> gradient = c.task;
    const RateSums sums = laplace_rate(c.latent, c.step, c.inverse_scale, 0, 77, 5, gradient);
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double e = noise_of(77, 5 + static_cast<std::uint32_t>(i));
      EXPECT_GE(e, -0.5001);
      EXPECT_LT(e, 0.5001);
      expected += bits_of(c.latent[i] / c.step + e, 1.0 / c.inverse_scale[i]);
    }
    EXPECT_NEAR(sums.bits, expected, 2e-3 * expected + 1e-3) << n;
    EXPECT_EQ(gradient, c.task) << "a weight of 0 leaves the task's gradient";
  }
}

TEST(LaplaceRate, GradientIsThatOfFiniteDifferences) {
  const std::size_t n = 200;
  const Case c = random_case(n, 3);
  const float weight = 0.3f;
  std::vector<float> gradient(n, 0.0f);
  laplace_rate(c.latent, c.step, c.inverse_scale, weight, 9, 0, gradient);
  int compared = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double e = noise_of(9, static_cast<std::uint32_t>(i));
    const double u = c.latent[i] / c.step + e, b = 1.0 / c.inverse_scale[i], h = 1e-4;
    if (std::fabs(std::fabs(u) - 0.5) < 0.01) continue;  // a kink of the slope
    const double slope = (bits_of(u + h, b) - bits_of(u - h, b)) / (2 * h);
    EXPECT_NEAR(gradient[i], weight * slope / c.step,
                1e-3 * std::fabs(weight * slope / c.step) + 2e-3)
        << i;
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

TEST(LaplaceRate, StepsGradientHasBothParts) {
  const std::size_t n = 40;
  const Case c = random_case(n, 4);
  const float weight = 0.2f;
  std::vector<float> gradient = c.task;
  const RateSums sums = laplace_rate(c.latent, c.step, c.inverse_scale, weight, 1, 0, gradient);
  double expected = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = static_cast<double>(c.latent[i]) / c.step;
    const double rate = (gradient[i] - c.task[i]) * c.step;  // weight * dbits/du
    expected += c.task[i] * (std::nearbyint(u) - u) * c.step - rate * u;
  }
  EXPECT_NEAR(sums.log_step_gradient, expected, 1e-3 * std::fabs(expected) + 1e-3);
}

TEST(LaplaceRate, NoiseIsUniformAndKeyed) {
  double sum = 0, squares = 0, alike = 0;
  const int n = 4000;
  for (int i = 0; i < n; ++i) {
    const double e = noise_of(123, static_cast<std::uint32_t>(i));
    sum += e;
    squares += e * e;
    alike += e * noise_of(124, static_cast<std::uint32_t>(i));
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1.0 / 12, 0.005);
  EXPECT_NEAR(alike / n, 0, 0.006) << "another key, other numbers";
}

TEST(LaplaceRate, PiecesGiveTheNumbersOfTheWhole) {
  const Case c = random_case(100, 6);
  std::vector<float> whole(100, 0.0f), parts(100, 0.0f);
  const auto span = [](const std::vector<float>& v, std::size_t first, std::size_t count) {
    return std::span(v).subspan(first, count);
  };
  laplace_rate(c.latent, c.step, c.inverse_scale, 1, 5, 0, whole);
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 37}, {37, 63}})
    laplace_rate(span(c.latent, first, count), c.step, span(c.inverse_scale, first, count), 1, 5,
                 static_cast<std::uint32_t>(first), std::span(parts).subspan(first, count));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(whole[i], parts[i], 1e-4) << i;
}

TEST(RoundToStep, RoundsHalvesToEven) {
  const std::vector<float> latent = {0.25f, 0.75f, -0.25f, 1.3f, -1.3f, 0};
  std::vector<float> rounded(latent.size());
  round_to_step(latent, 0.5f, rounded.data());
  EXPECT_EQ(rounded, (std::vector<float>{0, 1, 0, 1.5f, -1.5f, 0}));
}

TEST(LaplaceRate, GradientsAreTheSameWithoutBits) {
  const Case c = random_case(333, 4);
  std::vector<float> counted = c.task, alone = c.task;
  const RateSums with = laplace_rate(c.latent, c.step, c.inverse_scale, 0.3f, 8, 2, counted);
  const RateSums without =
      laplace_rate(c.latent, c.step, c.inverse_scale, 0.3f, 8, 2, alone, /*count_bits=*/false);
  EXPECT_EQ(counted, alone);
  EXPECT_EQ(with.log_step_gradient, without.log_step_gradient);
  EXPECT_GT(with.bits, 100);
  EXPECT_EQ(without.bits, 0);
}

}  // namespace
}  // namespace gbcompress
