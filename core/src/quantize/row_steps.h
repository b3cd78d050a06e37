#pragma once
/// Steps of a matrix's rows, by what errors of each row cost.

#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Offsets of rows' steps are multiples of this many sixteenths of an octave.
inline constexpr int kRowUnit = 4;

struct RowSteps {
  std::vector<std::int32_t> offsets;  ///< [rows], around 0; empty where all are 0
  double cost = 1;                    ///< of errors with them, over that of equal steps
};

/// Steps proportional to the shares to the power of -power / 2.
/// @param shares  [rows]: what errors of a row cost, over the mean of the rows; >= 0
/// @param power   0 ... 1
RowSteps row_steps_by_cost(std::span<const double> shares, double power);

}  // namespace gbcompress
