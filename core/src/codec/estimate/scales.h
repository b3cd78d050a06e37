#pragma once
/// Scale classes, and what columns have shown of their scale.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "gbcompress/codec.h"

namespace gbcompress::codec {

// A row scale r stands for a mean magnitude of 2^(r / 4), a column scale f for a factor 2^(f / 16).
inline constexpr int kLeastScale = -24, kMostScale = 80;
inline constexpr int kScales = kMostScale - kLeastScale + 1;
inline constexpr int kMostColumnScale = 96;
/// From this scale on the lowest bits of a value are not modeled, one more every four scales.
inline constexpr int kCoarseScale = 12;
inline constexpr int kTables = kCoarseScale - kLeastScale + 4;

/// What a scale means for a value: which table its symbol has, and how many bits lie below it.
struct ScaleClass {
  int table, shift;
};
constexpr ScaleClass scale_class(int scale) {
  if (scale < kCoarseScale) return {scale - kLeastScale, 0};
  const int above = scale - kCoarseScale;
  return {kCoarseScale - kLeastScale + above % 4, above / 4};
}

/// 2^(sixteenths / 16) in units of 2^-16, for -256 ... 256 sixteenths (rounded down).
std::uint64_t power(int sixteenths);

/// Mean magnitude of a table's scale, units of 2^-16.
std::int64_t table_mean(int table);
/// Symbols -range ... range have parts of their own in a table; others are escapes.
inline int table_range(int table) { return 2 + static_cast<int>(4 * table_mean(table) >> 16); }
/// Initial distribution of a table: two-sided geometric; the last one is the escape.
std::vector<std::uint32_t> first_weights(int table);

/// Scales of units (columns) beside the rows' own.
class UnitScales {
 public:
  explicit UnitScales(std::size_t units) : sums_(units, 0), counts_(units, 0), scales_(units, 0) {}

  int scale(std::size_t unit) const { return scales_[unit]; }
  /// @param inverse  2^(-row scale / 4), see inverse_of()
  void saw(std::size_t unit, int value, std::uint64_t inverse) {
    const std::uint64_t magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
    sums_[unit] += std::min<std::uint64_t>(magnitude * inverse >> 20, kMostSeen);
    ++counts_[unit];
  }
  static std::uint64_t inverse_of(int row_scale);
  /// Rows went by: scales follow, now and then.
  void end_rows(std::int64_t rows);

 private:
  static constexpr std::uint64_t kMostSeen = 1 << 14;  // 64 times what the row's scale says
  std::vector<std::uint64_t> sums_;  ///< of magnitudes over their row's scale, units of 2^-8
  std::vector<std::uint32_t> counts_;
  std::vector<std::int8_t> scales_;
  std::int64_t rows_ = 0, next_ = 1;
};

/// The values [first, last) of a tensor, in row-major order, that share a row scale: some whole
/// rows or one part of a row.
struct Segment {
  std::int64_t first, last;
  std::int64_t first_column;
  std::int64_t finished_rows;
};
/// A tensor's segments, in order.
class Segments {
 public:
  explicit Segments(const IntegerGrid& grid);
  bool next(Segment& segment);
  std::int64_t cols() const { return cols_; }

 private:
  std::int64_t rows_, cols_, group_ = 1, pieces_ = 1;
  std::int64_t row_ = 0, piece_ = 0;
};

}  // namespace gbcompress::codec
