#pragma once
/// Rounding with error feedback to dependent integers.

#include <span>

#include "base/internal.h"
#include "quantize/rounding/column_order.h"
#include "quantize/rounding/feedback.h"

namespace GBC_INTERNAL gbcompress {

/// Paths that the search follows in a matrix of so many numbers: large ones have less time each.
std::size_t paths_of(std::int64_t numbers) noexcept;

struct DependentIntegers {
  std::vector<std::int32_t> integers;  ///< [rows, cols], in the order of the matrix
  double loss = 0;                     ///< tr(E A E'), damping included
  double error = 0;                    ///< sum of squared errors
};

/// Integers of small loss, group after group of columns: within a group a beam follows the states
/// of the quantizers, and each of its paths has the errors of its own; between groups errors are
/// spread as in round_with_feedback().
/// @param grid     both matrices, where two are side by side
/// @param values   [rows, cols]
/// @param columns  factor of the moments whose rows and columns are in that order
/// @param rounding without a chooser
/// @throws as round_with_feedback()
DependentIntegers round_dependent(const IntegerGrid& grid, std::span<const float> values,
                                  const UpperFactor& columns, const ColumnOrder& order,
                                  const Rounding& rounding);

}  // namespace gbcompress
