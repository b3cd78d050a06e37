#pragma once
/// Cholesky factors of second moments.

#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// R, upper triangular with a positive diagonal, where R R' = H / mean + damp I and mean is the
/// mean of H's diagonal. A quadratic form tr(E H E') becomes a sum of squares, column after column:
/// column j of E R depends on columns 0 ... j of E alone. Takes 4 n^2 bytes.
class UpperFactor {
 public:
  /// @param symmetric  H [n, n], positive semidefinite, finite: dead rows and columns (all 0) and
  ///                   fewer samples than n are no error, `damp` stands in for what was not seen;
  ///                   a mean below 2^-126 counts as 0, which gives R = sqrt(1 + damp) I
  /// @param damp       above 0
  /// @param threads    that share the work; the bits do not depend on it
  /// @throws Error(kUsage) for other sizes; Error(kNonFinite) for a number that is not finite, and
  ///         where rounding leaves no positive pivot
  UpperFactor(std::span<const double> symmetric, std::int64_t n, double damp, int threads = 1);
  UpperFactor(std::span<const float> symmetric, std::int64_t n, double damp, int threads = 1);

  std::int64_t size() const noexcept { return n_; }
  /// R(j, j)
  double diagonal(std::int64_t j) const { return diagonal_[static_cast<std::size_t>(j)]; }
  /// Mean of R(j, j)^2: what a squared error costs once the columns to come make up for it; 1 for
  /// what has no correlations and no damping.
  double mean_square() const noexcept { return mean_square_; }
  /// R(i, j) / R(j, j) for j > i; what lies before means nothing.
  const double* row(std::int64_t i) const { return unit_.data() + first(i); }
  /// Replaces each row b of `rows` [m, n] by x with x (H + damp mean I) = b.
  void solve(std::span<double> rows) const;

 private:
  template <typename T>
  void take(std::span<const T> symmetric, double damp, int threads);
  /// Where row i would begin if what lies before its diagonal were there.
  std::int64_t first(std::int64_t i) const { return i * n_ - i * (i + 1) / 2; }

  std::int64_t n_;
  std::vector<double> unit_;  ///< rows of the triangle, one after another
  std::vector<double> diagonal_;
  double mean_ = 0, mean_square_ = 1;
};

}  // namespace gbcompress
