#pragma once
/// What bits cost where integers are chosen: by the mean magnitudes of a number's row and column.

#include <cstdint>
#include <span>
#include <vector>

#include "codec/trellis/trellis_path.h"
#include "gbcompress/codec.h"

namespace gbcompress::codec {

/// The same for every matrix: 0.075 squared steps a bit.
const RateCosts& rate_costs();

/// Sixteenths of an octave.
struct Scales {
  std::vector<std::int16_t> rows, cols;  ///< of rows; of columns beside them
};

/// @param values  [grid.rows, grid.cols]
Scales scales_of(const IntegerGrid& grid, std::span<const float> values);
std::int16_t sixteenths(double size);
/// @param unit  sixteenths() of the step
std::int8_t scale_class(int row_scale, int col_scale, int unit);

}  // namespace gbcompress::codec
