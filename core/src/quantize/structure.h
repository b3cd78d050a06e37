#pragma once
/// Tables that are no parameters, told by their values: positions, windows, masks, bucket edges,
/// filter banks.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

/// Whether the values follow a rule that training does not leave:
///   - along a dimension of at least 9 positions each value follows from its two neighbors by one
///     linear equation a line (progressions, sines and cosines, exponentials), with a residual of
///     at most 0.2 % of the deviation (BF16: 2 %, which rounding to it leaves), or all lines are
///     constant;
///   - at least 9 values of one line, or below 64, ascend or descend strictly, or are their mirror
///     image, whatever the sign;
///   - no value is negative, three quarters or more are 0, and what is not is one run in each row,
///     whose begin ascends over the rows (banks of filters);
///   - the values are integers: none is negative, or there are few values.
/// Smooth weights of convolutions and learned embeddings of positions stay above these bounds by a
/// factor of some.
/// @param values  finite, not all the same
/// @param line    is_line()
/// @param dtype   whose rounding the values have
bool is_structure(std::span<const float> values, const std::vector<std::int64_t>& shape,
                  DType dtype, bool line);

/// Lines along a dimension of at least 9 positions, whose values follow from their neighbors.
struct PredictedLines {
  std::int64_t positions = 0, stride = 0;
};
/// The dimension of the first rule above, or nothing. @param values  finite
std::optional<PredictedLines> predicted_lines(std::span<const float> values,
                                              const std::vector<std::int64_t>& shape, DType dtype);

}  // namespace gbcompress
