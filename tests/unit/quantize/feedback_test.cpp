#include "quantize/feedback/feedback.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gbcompress/error.h"
#include "moments.h"
#include "quantize/matrix.h"

namespace gbcompress {
namespace {

using testing::moments;
using testing::normals;

std::shared_ptr<const UpperFactor> factor_of(std::vector<double> h, std::int64_t n, double damp) {
  return std::make_shared<const UpperFactor>(std::move(h), n, damp);
}

/// H / mean of its diagonal + damp I.
std::vector<double> damped(std::vector<double> h, std::int64_t n, double damp) {
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += h[static_cast<std::size_t>(i * n + i)];
  for (double& x : h) x /= mean / static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) h[static_cast<std::size_t>(i * n + i)] += damp;
  return h;
}

/// The definition, number by number: the next one is where the cost is least if all later ones were
/// free to be any real number; then it is rounded and fixed.
std::vector<std::int32_t> by_definition(std::int64_t m, std::int64_t n, std::span<const float> w,
                                        const std::vector<double>& a, const std::vector<double>& g,
                                        double step) {
  const std::size_t count = static_cast<std::size_t>(m * n);
  std::vector<std::vector<double>> h(count, std::vector<double>(count));
  for (std::size_t x = 0; x < count; ++x)
    for (std::size_t y = 0; y < count; ++y)
      h[x][y] = g[x / static_cast<std::size_t>(n) * static_cast<std::size_t>(m) +
                  y / static_cast<std::size_t>(n)] *
                a[x % static_cast<std::size_t>(n) * static_cast<std::size_t>(n) +
                  y % static_cast<std::size_t>(n)];
  // Eliminating the last variable leaves the cost of the others when it is free: schur[t] is that
  // of the first t + 1.
  std::vector<std::vector<std::vector<double>>> schur(count);
  for (std::size_t t = count; t-- > 0;) {
    schur[t] = h;
    for (std::size_t x = 0; x < t; ++x)
      for (std::size_t y = 0; y < t; ++y) h[x][y] -= h[x][t] * h[t][y] / h[t][t];
  }
  std::vector<double> errors(count);
  std::vector<std::int32_t> integers(count);
  for (std::size_t t = 0; t < count; ++t) {
    double wanted = 0;  // the error that is least
    for (std::size_t k = 0; k < t; ++k) wanted -= schur[t][t][k] / schur[t][t][t] * errors[k];
    integers[t] =
        static_cast<std::int32_t>(std::nearbyint((static_cast<double>(w[t]) - wanted) / step));
    errors[t] = static_cast<double>(w[t]) - integers[t] * step;
  }
  return integers;
}

double cost(std::int64_t m, std::int64_t n, std::span<const float> w, const CodedValues& coded,
            const std::vector<double>& a, const std::vector<double>& g) {
  const std::vector<float> stored = coded_floats(coded);
  std::vector<double> e(w.size());
  for (std::size_t i = 0; i < e.size(); ++i)
    e[i] = static_cast<double>(w[i]) - static_cast<double>(stored[i]);
  double sum = 0;
  const auto at = [](std::int64_t i, std::int64_t j, std::int64_t cols) {
    return static_cast<std::size_t>(i * cols + j);
  };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t k = 0; k < m; ++k)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t l = 0; l < n; ++l)
          sum += g[at(i, k, m)] * e[at(k, l, n)] * a[at(l, j, n)] * e[at(i, j, n)];
  return sum;
}

TEST(Feedback, IsTheLeastCostWithAllLaterNumbersFree) {
  int different = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::int64_t m = 3, n = 4;
    const auto w = normals(12, seed);
    const auto a = moments(n, 9, seed + 100), g = moments(m, 7, seed + 200);
    const int step = -16;  // a half: its multiples are exact in float32
    const SecondOrder both{factor_of(a, n, 0.01), factor_of(g, m, 0.1)};
    const auto ad = damped(a, n, 0.01), gd = damped(g, m, 0.1);
    double loss = 0;
    const CodedValues coded = round_with_feedback({m, n}, w, both, {.step = step}, &loss);
    const auto size = static_cast<double>(step_size(step));
    EXPECT_EQ(coded.integers, by_definition(m, n, w, ad, gd, size));
    EXPECT_NEAR(loss, cost(m, n, w, coded, ad, gd), 1e-5 * loss);  // of float32 sums
    std::vector<double> identity(static_cast<std::size_t>(m * m));
    for (std::int64_t i = 0; i < m; ++i) identity[static_cast<std::size_t>(i * m + i)] = 1;
    const CodedValues columns =
        round_with_feedback({m, n}, w, {both.columns, nullptr}, {.step = step}, &loss);
    EXPECT_EQ(columns.integers, by_definition(m, n, w, ad, identity, size));
    EXPECT_NEAR(loss, cost(m, n, w, columns, ad, identity), 1e-5 * loss);
    different += columns.integers != coded.integers;
  }
  EXPECT_GT(different, 10);
}

TEST(Feedback, WithoutStatisticsIsTheRuleWithoutData) {
  const auto values = normals(40 * 30, 5);
  const IntegerGrid grid{40, 30, 0};
  const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true);
  const StepMatrix matrix(grid, values, facts.row_steps);
  for (const int step : {-60, -20, 0}) {
    const CodedValues wanted = matrix.choose(step, Quantizer::kNearest, 1).values;
    const CodedValues coded =
        round_with_feedback(grid, values, {}, {.step = step, .row_steps = facts.row_steps});
    EXPECT_EQ(coded.integers, wanted.integers);
    EXPECT_EQ(coded.row_steps, wanted.row_steps);
    // All moments 0, as where no sample reached the layer: the same.
    const SecondOrder dead{factor_of(std::vector<double>(900), 30, 0.01), nullptr};
    EXPECT_EQ(round_with_feedback(grid, values, dead, {.step = step, .row_steps = facts.row_steps})
                  .integers,
              wanted.integers);
  }
}

/// Column after column, as feedback.h defines it; more columns than are spread at once.
TEST(Feedback, ManyColumnsAreThoseOneByOneForAnyThreads) {
  const std::int64_t m = 41, n = 203;
  const auto values = normals(m * n, 21);
  const SecondOrder model{factor_of(moments(n, 400, 22), n, 0.01), nullptr};
  std::vector<double> factors(static_cast<std::size_t>(n), 1);
  std::fill(factors.begin() + 77, factors.end(), 0.5);
  const auto size = static_cast<double>(step_size(-16));
  std::vector<std::int32_t> expected;
  for (std::int64_t i = 0; i < m; ++i) {
    std::vector<double> t(values.begin() + i * n, values.begin() + (i + 1) * n);
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double own = size * factors[at];
      expected.push_back(static_cast<std::int32_t>(std::nearbyint(t[at] / own)));
      const double error =
          static_cast<double>(values[static_cast<std::size_t>(i * n + j)]) - expected.back() * own;
      for (std::int64_t k = j + 1; k < n; ++k)
        t[static_cast<std::size_t>(k)] += error * model.columns->row(j)[k];
    }
  }
  double losses[2] = {};
  for (const int threads : {1, 3}) {
    const CodedValues coded = round_with_feedback(
        {m, n}, values, model, {.step = -16, .column_factors = factors, .threads = threads},
        &losses[threads / 3]);
    EXPECT_EQ(coded.integers, expected);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(Feedback, RefusesWhatDoesNotFit) {
  const auto values = normals(12, 1);
  const SecondOrder model{factor_of(moments(3, 9, 1), 3, 0.01), nullptr};
  EXPECT_THROW(round_with_feedback({3, 4}, values, model, {}), Error);
  EXPECT_THROW(round_with_feedback({4, 4}, values, {}, {}), Error);
  EXPECT_THROW(round_with_feedback({4, 3, 0, true}, values, model, {}), Error);
  std::vector<float> wrong = values;
  wrong[5] = NAN;
  EXPECT_THROW(round_with_feedback({4, 3}, wrong, model, {}), Error);
}

}  // namespace
}  // namespace gbcompress
