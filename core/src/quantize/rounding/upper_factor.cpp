#include "quantize/rounding/upper_factor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Rows and columns that are worked on together, so that they stay in the cache.
constexpr std::int64_t kBlock = 48;

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

/// H -= P P' above and on the diagonal of its first `rows` rows, P being columns [first, last).
void subtract_panel(const Triangle& h, std::int64_t rows, std::int64_t first, std::int64_t last) {
  for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (std::int64_t j0 = i0; j0 < rows; j0 += kBlock)
      for (std::int64_t i = i0; i < std::min(i0 + kBlock, rows); ++i)
        for (std::int64_t j = std::max(i, j0); j < std::min(j0 + kBlock, rows); ++j)
          h.row(i)[j] -= dot(h.row(i) + first, h.row(j) + first, last - first);
}

/// Replaces the upper triangle of H by R, from the last column to the first.
void factor(const Triangle& h, std::int64_t n) {
  for (std::int64_t last = n; last > 0; last -= std::min(kBlock, last)) {
    const std::int64_t first = std::max<std::int64_t>(last - kBlock, 0);
    for (std::int64_t j = last - 1; j >= first; --j) {
      const double* const right = h.row(j) + j + 1;
      const double pivot = h.row(j)[j] - dot(right, right, last - j - 1);
      if (!(pivot > 0 && std::isfinite(pivot)))
        throw Error(Errc::kNonFinite,
                    "second moments are not positive; use other calibration samples");
      const double root = std::sqrt(pivot);
      h.row(j)[j] = root;
      for (std::int64_t i = 0; i < j; ++i)
        h.row(i)[j] = (h.row(i)[j] - dot(h.row(i) + j + 1, right, last - j - 1)) / root;
    }
    subtract_panel(h, first, first, last);
  }
}

}  // namespace

UpperFactor::UpperFactor(std::span<const double> symmetric, std::int64_t n, double damp) : n_(n) {
  take(symmetric, damp);
}
UpperFactor::UpperFactor(std::span<const float> symmetric, std::int64_t n, double damp) : n_(n) {
  take(symmetric, damp);
}

template <typename T>
void UpperFactor::take(std::span<const T> symmetric, double damp) {
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
  unit_.resize(static_cast<std::size_t>(n * (n + 1) / 2));
  const Triangle triangle(unit_.data(), n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) triangle.row(i)[j] = mean_ > 0 ? given(i, j) / mean_ : 0;
    triangle.row(i)[i] += mean_ > 0 ? damp : 1 + damp;
  }
  factor(triangle, n);
  mean_square_ = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const double root = triangle.row(j)[j];
    diagonal_.push_back(root);
    mean_square_ += root * root / static_cast<double>(n);
    for (std::int64_t i = 0; i < j; ++i) triangle.row(i)[j] /= root;
  }
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
