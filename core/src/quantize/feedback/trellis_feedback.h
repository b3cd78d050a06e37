#pragma once
/// Rounding with error feedback to dependent integers.

#include <span>

#include "base/internal.h"
#include "quantize/feedback/column_order.h"
#include "quantize/feedback/feedback.h"

namespace GBC_INTERNAL gbcompress {

/// Paths that the search follows in a matrix of so many numbers: large ones have less time each.
std::size_t paths_of(std::int64_t numbers) noexcept;

struct DependentIntegers {
  std::vector<std::int32_t> integers;  ///< [rows, cols], in the order of the matrix
  double loss = 0;   ///< tr(G E A E'), damping included; with a factor of rows about that
  double error = 0;  ///< sum of squared errors
};

/// Integers of small loss, group after group of columns: within a group a beam follows the states
/// of the quantizers, and each of its paths has the errors of its own; between groups errors are
/// spread as in round_with_feedback(). With a factor of the rows, what a row loses on the path that
/// is the cheapest at its end moves the rows after it.
/// @param grid     both matrices, where two are side by side
/// @param values   [rows, cols]
/// @param model    with a factor of the columns, of the moments whose rows and columns are in that
///                 order
/// @throws as round_with_feedback()
DependentIntegers round_dependent(const IntegerGrid& grid, std::span<const float> values,
                                  const SecondOrder& model, const ColumnOrder& order,
                                  const Rounding& rounding);

}  // namespace gbcompress
