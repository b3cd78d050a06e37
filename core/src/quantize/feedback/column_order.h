#pragma once
/// In which order columns are rounded where one integer decides which quantizer a later one has.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/codec.h"

namespace GBC_INTERNAL gbcompress {

/// Columns that follow one another in a sequence of quantizer states, row after row.
struct ColumnGroup {
  std::int64_t first = 0, count = 0;  ///< places in the order
  std::int64_t lines = 0;             ///< rows after which the states begin anew
};

struct ColumnOrder {
  std::vector<std::int64_t> columns;  ///< of the matrix, in the order in which they are rounded
  std::vector<ColumnGroup> groups;    ///< all places, one group after another
};

/// Rows and columns of `square` [n, n] in that order, of n places.
std::vector<float> ordered(std::span<const float> square, std::span<const std::int64_t> order);

/// Of dependent matrices side by side, so that no group needs the errors of a later one: a lane
/// after another, or a matrix after another where one state passes all its integers.
/// @return null where the rows have their lanes in different columns
std::shared_ptr<const ColumnOrder> column_order(std::span<const IntegerGrid> matrices);

}  // namespace gbcompress
