#pragma once
/// Scale classes of profile `lanes`: what a class stands for, and those that suit given integers.

#include <cstdint>
#include <vector>

#include "codec/lanes/layout.h"

namespace gbcompress::codec::lanes {

/// A class c stands for a mean magnitude of 2^((c + kLeastClass) / 3).
inline constexpr int kClasses = 72, kPerOctave = 3, kLeastClass = -15;
/// From the class kCoarse on the lowest bits of a value are apart: one more every octave.
inline constexpr int kTables = 27, kCoarse = kTables - kPerOctave;

constexpr int shift_of(int cls) { return cls < kCoarse ? 0 : (cls - kCoarse) / kPerOctave; }
constexpr int table_of(int cls) { return cls - kPerOctave * shift_of(cls); }
static_assert(shift_of(kClasses - 1) == 15);

/// The classes of a grid: those of a line and of a column are added and clamped to 0 ... kClasses
/// - 1.
struct Classes {
  bool by_line = false, by_column = false;
  bool by_block = false;             ///< every block has columns of its own
  int center = 0;                    ///< of lines, and what theirs is coded beside
  std::vector<std::int8_t> lines;    ///< [lines]
  std::vector<std::int8_t> columns;  ///< [1 or blocks, width], or empty

  const std::int8_t* columns_of(std::int64_t block, std::int64_t width) const {
    return columns.data() + (by_block ? block * width : 0);
  }
};

class Blocks;

/// The classes under which integers take few bits, theirs included. Integer arithmetic only.
/// @param threads  change no bit
Classes find_classes(const Shape& shape, const Blocks& blocks, int threads = 1);

}  // namespace gbcompress::codec::lanes
