#include "quantize/feedback/upper_factor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/feedback/subtract_products.h"

namespace gbcompress {
namespace {

/// Columns that are factored together: so many products go into a number while it is in the cache.
constexpr std::int64_t kPanel = 16 * kSquare;

/// Means below the least normal float32 have lost their digits: such inputs are as good as 0.
constexpr double kLeastMean = 0x1p-126;

/// Sum of a[k] b[k], in several sums side by side.
double dot(const double* a, const double* b, std::int64_t count) {
  std::array<double, 8> sums{};
  std::int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    for (std::int64_t e = 0; e < 8; ++e) sums[static_cast<std::size_t>(e)] += a[k + e] * b[k + e];
  double sum = 0;
  for (; k < count; ++k) sum += a[k] * b[k];
  for (const double part : sums) sum += part;
  return sum;
}

/// The upper triangle of a matrix; row(i)[j] for j >= i.
class Triangle {
 public:
  Triangle(double* numbers, std::int64_t n) : numbers_(numbers), n_(n) {}
  double* row(std::int64_t i) const { return numbers_ + i * n_ - i * (i + 1) / 2; }

 private:
  double* numbers_;
  std::int64_t n_;
};

/// Replaces the upper triangle of H by R, from the last panel of columns to the first. Each number
/// has its products subtracted in an order that depends on its place alone.
class Factorization {
 public:
  Factorization(const Triangle& h, std::int64_t n, int threads)
      : h_(h),
        n_(n),
        threads_(threads),
        above_(static_cast<std::size_t>((n + kPanel) * kPanel)),
        corner_(static_cast<std::size_t>(kPanel * kPanel)) {}

  void run() {
    for (first_ = (n_ - 1) / kPanel * kPanel; first_ >= 0; first_ -= kPanel) {
      throw_if_interrupted();
      last_ = std::min(first_ + kPanel, n_);
      factor_corner();
      const std::int64_t blocks = first_ / kPanel;
      parallel_tasks(threads_, first_ / kSquare, [this](std::int64_t t) { solve(t * kSquare); });
      parallel_tasks(threads_, blocks * (blocks + 1) / 2, [this](std::int64_t t) {
        std::int64_t column = 0;
        while ((column + 1) * (column + 2) / 2 <= t) ++column;
        subtract(t - column * (column + 1) / 2, column);
      });
    }
  }

 private:
  /// The panel's rows from its diagonal on: few, and each needs the one below.
  void factor_corner() {
    for (std::int64_t j = last_ - 1; j >= first_; --j) {
      const double* const right = h_.row(j) + j + 1;
      const double pivot = h_.row(j)[j] - dot(right, right, last_ - j - 1);
      if (!(pivot > 0 && std::isfinite(pivot)))
        throw Error(Errc::kNonFinite,
                    "second moments are not positive; use other calibration samples");
      const double root = std::sqrt(pivot);
      h_.row(j)[j] = root;
      for (std::int64_t i = first_; i < j; ++i)
        h_.row(i)[j] = (h_.row(i)[j] - dot(h_.row(i) + j + 1, right, last_ - j - 1)) / root;
    }
    // By squares of rows, column after column, as subtract_products() reads them.
    for (std::int64_t c0 = first_; c0 + kSquare < last_; c0 += kSquare)
      for (std::int64_t k = c0 + kSquare; k < last_; ++k)
        for (std::int64_t i = 0; i < kSquare; ++i)
          corner_[static_cast<std::size_t>((c0 - first_) * kPanel + (k - first_) * kSquare + i)] =
              h_.row(c0 + i)[k];
  }

  /// Columns of the panel in rows [8 s, 8 s + 8), one after another.
  double* square_of(std::int64_t row) { return above_.data() + row * kPanel; }

  /// The panel in rows [i0, i0 + 8), which lie above it: X with X R' = what is there.
  void solve(std::int64_t i0) {
    double* const x = square_of(i0);
    for (std::int64_t c = first_; c < last_; ++c)
      for (std::int64_t b = 0; b < kSquare; ++b) x[(c - first_) * kSquare + b] = h_.row(i0 + b)[c];
    for (std::int64_t c0 = (last_ - 1) / kSquare * kSquare; c0 >= first_; c0 -= kSquare) {
      const std::int64_t end = std::min(c0 + kSquare, last_);
      double* to[kSquare];
      for (std::int64_t i = 0; i < kSquare; ++i) to[i] = x + (c0 - first_ + i) * kSquare;
      const std::int64_t done = (end - first_) * kSquare;
      if (end < last_)
        subtract_products(to, corner_.data() + (c0 - first_) * kPanel + done, x + done,
                          last_ - end);
      for (std::int64_t c = end - 1; c >= c0; --c) {
        const double* const r = h_.row(c);
        for (std::int64_t k = c + 1; k < end; ++k)
          for (std::int64_t b = 0; b < kSquare; ++b) to[c - c0][b] -= r[k] * to[k - c0][b];
        for (std::int64_t b = 0; b < kSquare; ++b) to[c - c0][b] /= r[c];
      }
    }
    for (std::int64_t c = first_; c < last_; ++c)
      for (std::int64_t b = 0; b < kSquare; ++b) h_.row(i0 + b)[c] = x[(c - first_) * kSquare + b];
  }

  /// H -= X X' in a block of panels' sides on or above the diagonal, X being the panel above.
  void subtract(std::int64_t row, std::int64_t column) {
    double* to[kSquare];
    double square[kSquare * kSquare];
    for (std::int64_t i0 = row * kPanel; i0 < (row + 1) * kPanel; i0 += kSquare)
      for (std::int64_t j0 = std::max(i0, column * kPanel); j0 < (column + 1) * kPanel;
           j0 += kSquare) {
        const bool diagonal = i0 == j0;  // what lies before it is other rows
        for (std::int64_t i = 0; i < kSquare; ++i) {
          to[i] = diagonal ? square + i * kSquare : h_.row(i0 + i) + j0;
          if (diagonal) std::copy_n(h_.row(i0 + i) + j0 + i, kSquare - i, to[i] + i);
        }
        if (j0 + kSquare < (column + 1) * kPanel)
          for (std::int64_t i = 0; i < kSquare; ++i)  // rows of the next square lie far apart
            __builtin_prefetch(h_.row(i0 + i) + j0 + kSquare, 1);
        subtract_products(to, square_of(i0), square_of(j0), last_ - first_);
        for (std::int64_t i = 0; diagonal && i < kSquare; ++i)
          std::copy_n(to[i] + i, kSquare - i, h_.row(i0 + i) + j0 + i);
      }
  }

  const Triangle& h_;
  const std::int64_t n_;
  const int threads_;
  std::int64_t first_ = 0, last_ = 0;  ///< the panel
  std::vector<double> above_;          ///< what lies above it, by squares of rows
  std::vector<double> corner_;
};

}  // namespace

UpperFactor::UpperFactor(std::span<const double> symmetric, std::int64_t n, double damp,
                         int threads)
    : n_(n) {
  take(symmetric, damp, threads);
}
UpperFactor::UpperFactor(std::span<const float> symmetric, std::int64_t n, double damp, int threads)
    : n_(n) {
  take(symmetric, damp, threads);
}

template <typename T>
void UpperFactor::take(std::span<const T> symmetric, double damp, int threads) {
  const std::int64_t n = n_;
  if (n < 1 || symmetric.size() != static_cast<std::size_t>(n) * static_cast<std::size_t>(n))
    throw Error(Errc::kUsage, "second moments must be a square matrix");
  if (!(damp > 0)) throw Error(Errc::kUsage, "damping must be above 0");
  const auto given = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(symmetric[static_cast<std::size_t>(i * n + j)]);
  };
  for (std::int64_t i = 0; i < n; ++i) mean_ += given(i, i);
  mean_ /= static_cast<double>(n);
  if (!std::isfinite(mean_))
    throw Error(Errc::kNonFinite,
                "second-order statistics are not finite; leave out calibration samples with such "
                "large values");
  if (mean_ < kLeastMean) mean_ = 0;
  unit_.resize(static_cast<std::size_t>(n * (n + 1) / 2));
  const Triangle triangle(unit_.data(), n);
  const auto for_rows = [&](const auto& body) {
    parallel_tasks(threads, (n + kPanel - 1) / kPanel, [&](std::int64_t block) {
      for (std::int64_t i = block * kPanel; i < std::min((block + 1) * kPanel, n); ++i) body(i);
    });
  };
  for_rows([&](std::int64_t i) {
    for (std::int64_t j = i; j < n; ++j) triangle.row(i)[j] = mean_ > 0 ? given(i, j) / mean_ : 0;
    triangle.row(i)[i] += mean_ > 0 ? damp : 1 + damp;
  });
  Factorization(triangle, n, threads).run();
  mean_square_ = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const double root = triangle.row(j)[j];
    diagonal_.push_back(root);
    mean_square_ += root * root / static_cast<double>(n);
  }
  for_rows([&](std::int64_t i) {
    for (std::int64_t j = i + 1; j < n; ++j) triangle.row(i)[j] /= diagonal(j);
  });
}

void UpperFactor::solve(std::span<double> rows) const {
  const std::int64_t m = static_cast<std::int64_t>(rows.size()) / n_;
  for (std::int64_t i = 0; i < m; ++i) {
    double* const x = rows.data() + i * n_;
    // y R' = b from the last to the first, then x R = y from the first to the last.
    // What is kept is y R(j, j), which is what the sums need.
    for (std::int64_t j = n_ - 1; j >= 0; --j) x[j] -= dot(x + j + 1, row(j) + j + 1, n_ - j - 1);
    for (std::int64_t j = 0; j < n_; ++j) x[j] /= diagonal(j) * diagonal(j);
    for (std::int64_t k = 0; k < n_; ++k) {
      const double* const r = row(k);
      const double value = x[k];
      for (std::int64_t j = k + 1; j < n_; ++j) x[j] -= value * r[j];
    }
    const double scale = mean_ > 0 ? 1 / mean_ : 1;
    for (std::int64_t j = 0; j < n_; ++j) x[j] *= scale;
  }
}

}  // namespace gbcompress
