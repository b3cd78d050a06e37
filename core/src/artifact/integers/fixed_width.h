#pragma once
/// Matrices as integers of a fixed width and steps in memory, and products with them. Values are
/// not rounded to the element type of the file's tensor.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

class FixedWidthMatrix {
 public:
  static constexpr std::array<int, 4> kWidths = {4, 5, 6, 8};
  /// Columns that are packed together: 64 bytes of the lowest four bits, then 16 for each further
  /// bit; of eight bits, signed bytes. The last block of a row is filled with zeros.
  static constexpr std::int64_t kBlock = 128;
  static constexpr std::int64_t kMostColumns = std::int64_t{1} << 16;

  /// Whether a tensor of at least two dimensions, of at most kMostColumns columns, is integers
  /// times steps of rows alone.
  static bool fits(const ArtifactReader& artifact, std::size_t tensor) noexcept;

  /// The tensor as [rows, cols], where the rows are those that have steps of their own: the first
  /// dimension times how many such rows each of its parts has, 1 of most tensors. The width is the
  /// one that takes least memory; integers beyond it are held apart, with their columns.
  /// @param tensor  fits()
  /// @throws Error(kCorrupt, kTruncated) as decode_elements()
  FixedWidthMatrix(const ArtifactReader& artifact, std::size_t tensor, int threads);
  /// @param units   [rows, cols] integers
  /// @param scales  one, or one a row: a value is its unit times that
  FixedWidthMatrix(std::span<const float> units, std::int64_t rows, std::vector<float> scales);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t cols() const noexcept { return cols_; }
  int bits() const noexcept { return bits_; }
  /// Of memory.
  std::int64_t bytes() const noexcept;

  /// to[t, r] = sum over c of x[t, c] * value[r, c], in float32. [thread-safe]
  /// @param x   [tokens, cols]
  /// @param to  [tokens, rows]
  void multiply(std::span<const float> x, std::int64_t tokens, std::span<float> to,
                int threads) const;
  /// The values of rows. [thread-safe]
  /// @tparam To     float, codec::lanes::Bfloat16 or codec::lanes::Float16: rounded to nearest even
  /// @param wanted  within the matrix
  /// @param to      [wanted, cols]
  template <typename To>
  void read(std::span<const std::int64_t> wanted, std::span<To> to, int threads) const;

  /// Bytes of a row.
  std::int64_t stride() const noexcept { return blocks() * (kBlock / 8) * bits_; }
  std::int64_t blocks() const noexcept { return (cols_ + kBlock - 1) / kBlock; }
  const std::uint8_t* row(std::int64_t r) const noexcept { return packed_.data() + r * stride(); }
  float scale(std::int64_t r) const noexcept {
    return scales_[scales_.size() == 1 ? 0 : static_cast<std::size_t>(r)];
  }
  /// What an integer beyond the width has more than the one that is packed in its place; of a large
  /// one a part, so that a column may have several.
  struct Rest {
    std::uint16_t column;
    std::int16_t units;
  };
  std::span<const Rest> rests(std::int64_t r) const noexcept {
    const auto at = static_cast<std::size_t>(r);
    return std::span(rests_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
  }

 private:
  /// How many integers have each magnitude; the last one stands for all larger ones.
  using Counts = std::vector<std::int64_t>;
  void choose_bits(const Counts& counts);
  static void add_rests(std::int64_t column, float units, std::vector<Rest>& rests);
  void pack(std::span<const float> units, std::int64_t first,
            std::vector<std::vector<Rest>>& rests);
  void finish(const std::vector<std::vector<Rest>>& rests);

  std::int64_t rows_, cols_;
  int bits_ = kWidths.back();
  std::vector<std::uint8_t> packed_;
  std::vector<float> scales_;
  std::vector<std::uint32_t> starts_;  ///< [rows + 1] of the rests of each row
  std::vector<Rest> rests_;
};

/// Rows [first, last) of FixedWidthMatrix::multiply().
/// @param x  [tokens, whole blocks], zeros behind the columns
void multiply_fixed_width(const FixedWidthMatrix& matrix, std::int64_t first, std::int64_t last,
                          const float* x, std::int64_t tokens, float* to);
/// The units of a row, without rests: whole blocks.
void unpack_fixed_width(const FixedWidthMatrix& matrix, std::int64_t row, float* to);

}  // namespace gbcompress
