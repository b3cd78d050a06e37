#pragma once
/// Rounding with error feedback: what one number loses, the numbers to come make up for.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"
#include "quantize/feedback/upper_factor.h"

namespace GBC_INTERNAL gbcompress {

/// What the error E [m, n] of a matrix costs: tr(G E A E'), G [m, m] and A [n, n] of mean
/// diagonal 1.
struct SecondOrder {
  std::shared_ptr<const UpperFactor> columns;  ///< of A; null: the identity
  std::shared_ptr<const UpperFactor> rows;     ///< of G; null: the identity

  /// Mean of what a squared error costs while all others make up for it.
  double mean_square() const {
    return (columns ? columns->mean_square() : 1) * (rows ? rows->mean_square() : 1);
  }
};

/// How a weight becomes an integer.
struct Rounding {
  int step = 0;                             ///< index of step_size()
  std::span<const std::int32_t> row_steps;  ///< empty, or added to it in each row
  /// Dependent integers: so many times as much counts a squared step beside a bit.
  double weight = 1;
  /// Empty, or [cols]: the step size of a column over that of its row. The result does not name
  /// them: the caller takes the columns of one factor apart.
  std::span<const double> column_factors = {};
  /// For rows, which are independent where there is no factor of the rows. The integers do not
  /// depend on it.
  int threads = 1;
  /// Dependent integers: sequences that are followed side by side; 0: as paths_of() says.
  std::size_t paths = 0;
};

/// Integers for the least cost, one number after another in row-major order: each is rounded after
/// what the ones before it have lost is added in, as far as the factors say that it makes up for
/// it. Values of 0 stay 0. Without factors that is rounding each to the nearest integer.
/// @param grid    not dependent
/// @param values  [rows, cols], finite, in the step's unit below kMaxMagnitude / 2
/// @param loss    if not null, becomes tr(G E A E'), damping included
/// @throws Error(kUsage) where sizes do not fit; Error(kNonFinite) for values that are not finite
CodedValues round_with_feedback(const IntegerGrid& grid, std::span<const float> values,
                                const SecondOrder& model, const Rounding& rounding,
                                double* loss = nullptr);

}  // namespace gbcompress
