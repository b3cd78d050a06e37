#pragma once
/// Decodes stripes of profile `lanes` into integers or straight into real numbers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/head.h"

namespace gbcompress::codec::lanes {

/// The tables of a head as decoders take them, made once for all grids and threads.
class Entries {
 public:
  explicit Entries(const std::vector<TableSet>& sets);
  const std::uint32_t* of(const GridHead& grid) const { return entries_[grid.set].data(); }

 private:
  std::vector<std::vector<std::uint32_t>> entries_;
};

/// A grid's blocks, one after another or in any order; holds the class of columns as decoders take
/// them.
class GridDecoder {
 public:
  /// @param grid  must outlive this
  GridDecoder(const IntegerGrid& form, const GridHead& grid, const Entries& entries);

  /// What units are multiplied with: one scale for all, or one for each row, which must outlive
  /// this.
  void set_scale(float scale) { scale_ = scale; }
  void set_row_scales(const float* scales) { row_scales_ = scales; }

  const Shape& shape() const { return shape_; }
  template <typename Out>
  bool decode(std::int64_t block, StripeCursor& cursor, Out* out) {
    return decode_block(input(block), cursor, out);
  }

 private:
  BlockInput input(std::int64_t block);
  void load_columns(std::int64_t list);

  Shape shape_;
  const GridHead& grid_;
  const std::uint32_t* entries_;
  bool dependent_;
  std::int64_t row_size_, list_ = -1;
  float scale_ = 1;
  const float* row_scales_ = nullptr;
  std::vector<std::int32_t> bases_;
  std::vector<std::int8_t> highest_;
};

/// The bytes of a stripe, with room to read behind them.
class StripeReader {
 public:
  /// @param stripe    as the index says
  /// @param readable  bytes from the beginning of the stripe that may be read, at least its own;
  ///                  where they are too few the stripe is copied
  /// @throws Error(kTruncated, kCorrupt)
  StripeReader(std::span<const std::byte> stripe, std::size_t readable);

  StripeCursor& cursor() { return cursor_; }
  /// @throws Error(kCorrupt) unless all states, words and escapes are at their end
  void finish() const;

 private:
  StripeCursor cursor_;
  std::vector<std::byte> copy_;
};

/// Bytes that a stripe has at least, and values that a byte of a stream stands for at most.
inline constexpr std::size_t kLeastStripe = 4 + 4 * kLaneCount;
inline constexpr std::int64_t kMostValuesAByte = 1 << 13;

[[noreturn]] void throw_corrupt_stripe();

}  // namespace gbcompress::codec::lanes
