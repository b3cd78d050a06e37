#pragma once
/// What the dense form expects of each element's difference (docs/reference/exact-deltas.md,
/// "Dense").

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "codec/delta/adaptive.h"
#include "codec/delta/change.h"

namespace gbcompress::codec::delta {

/// Levels above the lowest one that make a difference, and bits behind the point of activities.
inline constexpr unsigned kMostShift = 24, kFractionBits = 6;
inline constexpr std::uint64_t kMostMagnitude = std::uint64_t{1} << 24;
/// Columns beyond which all of a row share one activity.
inline constexpr std::int64_t kMostColumns = 1 << 20;

/// Index of half octaves: 0 for 0, 1 for 1, then 2 for 2, 3 for 3, 4 for 4 and 5, 5 for 6 and 7.
inline unsigned half_octave(std::uint64_t x) noexcept {
  if (x < 2) return static_cast<unsigned>(x);
  const auto top = static_cast<unsigned>(std::bit_width(x)) - 1;
  return 2 * top + static_cast<unsigned>(x >> (top - 1) & 1);
}

class DenseModel {
 public:
  /// @param bits  of an element
  DenseModel(ChangeGrid grid, int bits)
      : bits_(bits), own_columns_(grid.rows > 1 && grid.cols <= kMostColumns) {
    if (!own_columns_) return;
    columns_.resize(static_cast<std::size_t>(grid.cols));
    signs_.resize(static_cast<std::size_t>(grid.cols));
  }

  void begin_row(std::int64_t row) {
    column_rate_ =
        std::min(kColumnRate, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(row))));
  }

  void put(RansWriter& out, std::size_t col, unsigned shift, std::int64_t difference) {
    expect(col, shift);
    const std::uint64_t magnitude = size_of(difference);
    const auto length = static_cast<int>(std::bit_width(magnitude));
    const int token = length == 0 ? 0 : length - least_ + 1;
    const bool escaped = token < 0 || (length > 0 && token < 1) || token >= kEscape;
    lengths_[context_].put(out, escaped ? kEscape : static_cast<unsigned>(token));
    if (escaped) out.put_even(static_cast<std::uint32_t>(length), 7);
    if (length > 0) {
      const std::uint64_t rest = magnitude - (std::uint64_t{1} << (length - 1));
      const int below = std::max(length - 1 - kTopBits, 0);
      const auto top = static_cast<unsigned>(rest >> below);
      tops_[top_context(col, length)].put(out, (difference < 0 ? 8u : 0u) + top);
      put_bits(out, rest & ((std::uint64_t{1} << below) - 1), below);
    }
    learn(col, shift, difference, magnitude);
  }

  std::int64_t get(RansReader& in, std::size_t col, unsigned shift) {
    expect(col, shift);
    const auto token = static_cast<int>(lengths_[context_].get(in));
    int length = token == 0 ? 0 : token + least_ - 1;
    if (token == kEscape) length = static_cast<int>(in.take_even(7));
    if (length > bits_) corrupt();
    std::uint64_t magnitude = 0;
    bool negative = false;
    if (length > 0) {
      const unsigned symbol = tops_[top_context(col, length)].get(in);
      negative = symbol >= 8;
      const int below = std::max(length - 1 - kTopBits, 0), top_bits = length - 1 - below;
      if ((symbol & 7) >> top_bits != 0) corrupt();
      magnitude = (std::uint64_t{1} << top_bits | (symbol & 7)) << below | get_bits(in, below);
    }
    const auto difference = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
    learn(col, shift, difference, magnitude);
    return difference;
  }

 private:
  static constexpr int kEscape = 15, kTopBits = 3, kRowRate = 5, kColumnRate = 4;
  static constexpr unsigned kHalfOctaves = 64, kQuiet = 16;

  [[noreturn]] static void corrupt() {
    throw Error(Errc::kCorrupt, "a change is longer than its elements; get the file again");
  }
  static std::uint64_t size_of(std::int64_t difference) noexcept {
    const auto bits = static_cast<std::uint64_t>(difference);
    return difference < 0 ? 0 - bits : bits;
  }

  /// Sets what is known before the element.
  void expect(std::size_t col, unsigned shift) {
    const std::uint64_t column = own_columns_ ? columns_[col] : row_;
    const std::uint64_t twice = (row_ + column) >> shift;
    expected_ = std::min(half_octave(twice), kHalfOctaves - 1);
    least_ = std::max(1, static_cast<int>(expected_ / 2) - static_cast<int>(kFractionBits) - 9);
    context_ = expected_ + (quiet_ >= kQuiet ? kHalfOctaves : 0);
  }

  std::size_t top_context(std::size_t col, int length) const {
    const int place = std::clamp(
        length - static_cast<int>(expected_ / 2) + static_cast<int>(kFractionBits) + 1, 0, 3);
    const int kind = length < 4 ? length - 1 : 3 + place;
    int sign = 2;
    if (own_columns_ && signs_[col] != 0) {
      const int likely = signs_[col] * agreement_;
      sign = likely < -kSure       ? 0
             : likely < -kHalfSure ? 1
             : likely > kSure      ? 4
             : likely > kHalfSure  ? 3
                                   : 2;
    }
    return static_cast<std::size_t>(7 * sign + kind);
  }

  void learn(std::size_t col, unsigned shift, std::int64_t difference, std::uint64_t magnitude) {
    const auto activity =
        static_cast<std::int64_t>(std::min(magnitude, kMostMagnitude) << (shift + kFractionBits));
    row_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(row_) +
                                      ((activity - static_cast<std::int64_t>(row_)) >> kRowRate));
    quiet_ = difference == 0 ? quiet_ + 1 : 0;
    if (!own_columns_) return;
    auto& column = columns_[col];
    column = static_cast<std::uint64_t>(
        static_cast<std::int64_t>(column) +
        ((activity - static_cast<std::int64_t>(column)) >> column_rate_));
    const int sign = difference > 0 ? 1 : difference < 0 ? -1 : 0;
    if (sign == 0) return;
    if (signs_[col] != 0) agreement_ += (256 * sign * signs_[col] - agreement_) >> 4;
    signs_[col] = static_cast<std::int8_t>(sign);
  }

  static constexpr int kSure = 160, kHalfSure = 64;
  const int bits_;
  const bool own_columns_;
  std::vector<std::uint64_t> columns_;  ///< activities
  std::vector<std::int8_t> signs_;      ///< of the last change in each column
  std::uint64_t row_ = 0;               ///< activity
  std::uint64_t quiet_ = 0;             ///< elements since the last change
  int agreement_ = 0;                   ///< of signs with those of the row above
  int column_rate_ = 0;
  unsigned expected_ = 0, context_ = 0;
  int least_ = 1;
  std::array<Adaptive, 2 * kHalfOctaves> lengths_;
  std::array<Adaptive, 35> tops_;
};

}  // namespace gbcompress::codec::delta
