#pragma once
/// Steps of an encoder in vectors. Every level of a processor gives the same bits.

#include <cstddef>
#include <cstdint>

#include "codec/lanes/layout.h"

namespace gbcompress::codec::lanes {

/// Words that push_steps() may write in vain before those that it returns.
inline constexpr std::size_t kWordsInVain = 16;

/// Parts of the unit interval (width << 16 | start) and low bits apart (shift << 16 | bits), taken
/// backwards, kLaneCount of them a step.
/// @param parts   [steps, kLaneCount]
/// @param lows    the same, or null
/// @param states  [kLaneCount]
/// @param next    words are written before it
/// @return the first word that was written
std::uint16_t* push_steps(const std::uint32_t* parts, const std::uint32_t* lows, std::size_t steps,
                          std::uint32_t* states, std::uint16_t* next);

/// Nearest integers of one line.
struct LineInput {
  const std::int32_t* values;
  const std::int8_t* columns;  ///< classes beside the line's, or null
  std::size_t count;
  int cls;  ///< of the line
};

/// Where each value is in tables of kSymbols entries: table * kSymbols + symbol, of magnitudes
/// above kSpan that of the escape with their parity.
/// @param lows  if not null: shift << 16 | low bits of each value
void find_symbols(const LineInput& line, std::uint16_t* places, std::uint32_t* lows);

/// Adds the magnitudes of values to `sums`. @return their sum
std::uint64_t add_magnitudes(const std::int32_t* values, std::size_t count, std::uint64_t* sums);

/// The entries of `table` at these places. @return whether one of them has no width, or is an
/// escape
bool take_parts(const std::uint16_t* places, std::size_t count, const std::uint32_t* table,
                std::uint32_t* parts);

}  // namespace gbcompress::codec::lanes
