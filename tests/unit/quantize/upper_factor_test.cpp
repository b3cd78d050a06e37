#include "quantize/feedback/upper_factor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gbcompress/error.h"
#include "moments.h"
#include "quantize/feedback/subtract_products.h"

namespace gbcompress {
namespace {

using testing::moments;

/// H / mean + damp I, from the factor.
double product(const UpperFactor& factor, std::int64_t i, std::int64_t j) {
  const auto entry = [&](std::int64_t a, std::int64_t b) {
    return a == b ? factor.diagonal(b) : a < b ? factor.row(a)[b] * factor.diagonal(b) : 0;
  };
  double sum = 0;
  for (std::int64_t k = 0; k < factor.size(); ++k) sum += entry(i, k) * entry(j, k);
  return sum;
}

double mean_diagonal(const std::vector<double>& h, std::int64_t n) {
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += h[static_cast<std::size_t>(i * n + i)];
  return mean / static_cast<double>(n);
}

TEST(UpperFactor, IsARootOfTheDampedMoments) {
  for (const std::int64_t n : {1, 5, 48, 131}) {
    // Fewer samples than columns too: the moments are then singular.
    for (const std::int64_t samples : {n / 2 + 1, 3 * n}) {
      const std::vector<double> h = moments(n, samples, 1);
      const UpperFactor factor(h, n, 0.01);
      const double mean = mean_diagonal(h, n);
      double mean_square = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        mean_square += factor.diagonal(i) * factor.diagonal(i) / static_cast<double>(n);
        for (std::int64_t j = i; j < n; ++j)
          ASSERT_NEAR(product(factor, i, j),
                      h[static_cast<std::size_t>(i * n + j)] / mean + (i == j ? 0.01 : 0), 1e-9);
      }
      EXPECT_NEAR(factor.mean_square(), mean_square, 1e-12);
    }
  }
}

/// R by its definition, number by number, from the last column to the first.
std::vector<double> plain_factor(std::vector<double> h, std::int64_t n, double damp) {
  const double mean = mean_diagonal(h, n);
  const auto at = [n](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * n + j);
  };
  for (double& x : h) x /= mean;
  for (std::int64_t i = 0; i < n; ++i) h[at(i, i)] += damp;
  std::vector<double> r(h.size());
  for (std::int64_t j = n; j-- > 0;)
    for (std::int64_t i = j + 1; i-- > 0;) {
      double left = h[at(i, j)];
      for (std::int64_t k = j + 1; k < n; ++k) left -= r[at(i, k)] * r[at(j, k)];
      r[at(i, j)] = i == j ? std::sqrt(left) : left / r[at(j, j)];
    }
  return r;
}

/// Sides around those of squares and panels.
TEST(UpperFactor, IsThePlainOneWithTheSameBitsForAnyThreads) {
  for (const std::int64_t n : {16, 127, 128, 129, 272, 401}) {
    const std::vector<double> h = moments(n, n / 2, 5);
    const std::vector<double> plain = plain_factor(h, n, 0.02);
    const UpperFactor one(h, n, 0.02);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j) {
        const double wanted = plain[static_cast<std::size_t>(i * n + j)];
        ASSERT_NEAR(i == j ? one.diagonal(i) : one.row(i)[j] * one.diagonal(j), wanted, 1e-10)
            << n << ": " << i << ", " << j;
      }
    for (const int threads : {2, 3}) {
      const UpperFactor many(h, n, 0.02, threads);
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(many.diagonal(i), one.diagonal(i));
        for (std::int64_t j = i + 1; j < n; ++j) ASSERT_EQ(many.row(i)[j], one.row(i)[j]);
      }
    }
  }
}

/// What is known of any processor: each number has its products subtracted one by one.
TEST(UpperFactor, SubtractsProductsInOneOrder) {
  const std::int64_t depth = 37;
  const std::vector<float> left = testing::normals(depth * kSquare, 1),
                           right = testing::normals(depth * kSquare, 2);
  const std::vector<double> a(left.begin(), left.end()), b(right.begin(), right.end());
  std::vector<double> c(static_cast<std::size_t>(kSquare * kSquare), 0.1), wanted = c;
  double* to[kSquare];
  for (std::int64_t i = 0; i < kSquare; ++i) to[i] = c.data() + i * kSquare;
  subtract_products(to, a.data(), b.data(), depth);
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t i = 0; i < kSquare; ++i)
      for (std::int64_t j = 0; j < kSquare; ++j)
        wanted[static_cast<std::size_t>(i * kSquare + j)] -=
            a[static_cast<std::size_t>(k * kSquare + i)] *
            b[static_cast<std::size_t>(k * kSquare + j)];
  EXPECT_EQ(c, wanted);
}

TEST(UpperFactor, OfFloatsIsThatOfTheSameNumbers) {
  const std::int64_t n = 53;
  const std::vector<double> made = moments(n, 80, 4);
  const std::vector<float> narrow(made.begin(), made.end());
  const std::vector<double> wide(narrow.begin(), narrow.end());
  const UpperFactor one(narrow, n, 0.01), other(wide, n, 0.01);
  EXPECT_NE(one.row(0)[1], UpperFactor(made, n, 0.01).row(0)[1]) << "nothing was rounded";
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i + 1; j < n; ++j) EXPECT_EQ(one.row(i)[j], other.row(i)[j]);
}

TEST(UpperFactor, SolvesRows) {
  const std::int64_t n = 70, m = 3;
  const std::vector<double> h = moments(n, 200, 2);
  const UpperFactor factor(h, n, 0.02);
  std::vector<double> x(static_cast<std::size_t>(m * n)), b(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
  const double damping = 0.02 * mean_diagonal(h, n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < n; ++k)
        b[static_cast<std::size_t>(i * n + j)] +=
            x[static_cast<std::size_t>(i * n + k)] *
            (h[static_cast<std::size_t>(k * n + j)] + (k == j ? damping : 0));
  factor.solve(b);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(b[i], x[i], 1e-7);
}

TEST(UpperFactor, TakesDeadInputsAndNoneAtAll) {
  std::vector<double> h = moments(6, 20, 3);
  for (std::size_t k = 0; k < 6; ++k) h[2 * 6 + k] = h[k * 6 + 2] = 0;
  const UpperFactor factor(h, 6, 0.01);
  EXPECT_NEAR(factor.diagonal(2), 0.1, 1e-12);  // damping alone
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(factor.row(static_cast<std::int64_t>(i))[2], 0);
  const UpperFactor none(std::vector<double>(16), 4, 0.01);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(none.diagonal(i), std::sqrt(1.01), 1e-12);
}

/// float32 has few digits there, and products of equal inputs differ.
TEST(UpperFactor, TakesInputsThatVanish) {
  std::vector<float> h(16 * 16);
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = (i % 17 == 0 ? 7 : 8) * 0x1p-149f;
  const UpperFactor factor(std::span<const float>(h), 16, 0.01);
  EXPECT_DOUBLE_EQ(factor.diagonal(3), std::sqrt(1.01));
  EXPECT_EQ(factor.row(3)[9], 0);
}

TEST(UpperFactor, RefusesWhatIsNoMoments) {
  EXPECT_THROW(UpperFactor(std::vector<double>(5), 2, 0.01), Error);
  EXPECT_THROW(UpperFactor(std::vector<double>(4), 2, 0), Error);
  std::vector<double> h = {1, 0, 0, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(UpperFactor(h, 2, 0.01), Error);
  h = {1, std::numeric_limits<double>::quiet_NaN(), 0, 1};
  EXPECT_THROW(UpperFactor(h, 2, 0.01), Error);
  h = {1, 4, 4, 1};  // not positive semidefinite
  EXPECT_THROW(UpperFactor(h, 2, 0.01), Error);
}

}  // namespace
}  // namespace gbcompress
