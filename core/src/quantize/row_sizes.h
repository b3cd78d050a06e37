#pragma once
/// How large the rows of a matrix are where single values do not decide.

#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/codec.h"

namespace GBC_INTERNAL gbcompress {

/// A value of at least so many times the root mean square of the smaller values of its row is an
/// outlier.
inline constexpr double kOutlier = 50;

/// Of a row without its outliers.
struct RowSize {
  double rms = 0;      ///< root mean square of all values but the outliers; 0: all are 0
  double squares = 0;  ///< of all values
  float largest = 0;   ///< magnitude of all values
};
/// @param row  finite
RowSize size_of_row(std::span<const float> row);
/// @param values  [grid.rows, grid.cols]
std::vector<RowSize> sizes_of_rows(const IntegerGrid& grid, std::span<const float> values);
/// Root mean square of all rows together, without their outliers.
double rms_of(std::span<const RowSize> rows);
/// Of rows of cosines: what a row may lose is a share of the values that it becomes, and few
/// cosines are most of a row without being outliers.
/// @param sizes    of the rows of values
/// @param cosines  [grid.rows, grid.cols], of the values along a dimension
/// @param across   each row of values is made of several rows of cosines: all may lose what the
///                 smallest row may
std::vector<RowSize> sizes_of_cosines(std::vector<RowSize> sizes, const IntegerGrid& grid,
                                      std::span<const float> cosines, bool across);

/// The grid with rows divided evenly, so that blocks of columns far below the others' size are rows
/// with steps of their own; as it is where there are none.
IntegerGrid divided(const IntegerGrid& grid, std::span<const float> values);

/// A row and its squared error over the squares of its values but outliers.
struct RowLoss {
  std::size_t row;
  double share;
};
/// Rows that lose more than `most`.
/// @param sizes  of the rows
std::vector<RowLoss> rows_beyond(const IntegerGrid& grid, std::span<const RowSize> sizes,
                                 std::span<const float> values, std::span<const float> stored,
                                 double most);
/// The largest relative squared error of a row, over the squares of its values but outliers; 0 for
/// rows of zeros that stay so, infinity for others and where a value is not finite.
double worst_row(const IntegerGrid& grid, std::span<const float> values,
                 std::span<const float> stored);

}  // namespace gbcompress
