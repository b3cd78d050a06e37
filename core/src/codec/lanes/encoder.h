#pragma once
/// Encodes grids in two passes: classes and counts of all, from which tables are made; then
/// stripes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/lanes/blocks.h"
#include "codec/lanes/head.h"
#include "codec/lanes/layout.h"

namespace gbcompress::codec::lanes {

/// First pass. Everything is deterministic: integers in one order.
class Survey {
 public:
  /// The next grid's values. @param threads  change no bit
  void add(const IntegerGrid& grid, const Blocks& blocks, int threads = 1);
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values, int threads = 1) {
    add(grid, WholeGrid(Shape(grid), values), threads);
  }
  /// Makes the tables and the head. @return the head
  std::vector<std::byte> finish();

  std::size_t size() const { return grids_.size(); }
  const GridHead& grid(std::size_t index) const { return grids_[index]; }
  const TableSet& set(const GridHead& grid) const { return sets_[grid.set]; }

 private:
  static constexpr std::uint32_t kNearest = 0, kDependent = 1;

  std::vector<Shape> shapes_;
  std::vector<GridHead> grids_;
  std::vector<TableSet> sets_{TableSet(false), TableSet(true)};
  using SymbolCounts = std::array<std::uint32_t, kSymbols>;  ///< of one grid
  std::vector<std::vector<SymbolCounts>> parts_;             ///< of the threads
  std::vector<std::vector<Counts>> counts_{std::vector<Counts>(sets_[0].size()),
                                           std::vector<Counts>(sets_[1].size())};
};

/// Second pass: one stripe after another.
class StripeEncoder {
 public:
  /// A block of a grid of the survey.
  void add(const Survey& survey, const GridHead& grid, const Shape& shape, std::int64_t block,
           std::span<const std::int32_t> values);
  /// The stripe's bytes; the encoder is empty again.
  std::vector<std::byte> finish();
  /// Ideal code length of all stripes so far, by the widths; bits.
  double bits() const { return bits_; }

 private:
  void add_places(const GridHead& grid, const Shape& shape, std::int64_t block,
                  std::span<const std::int32_t> values, const std::vector<std::uint32_t>& table,
                  std::uint32_t* next, std::uint32_t* lows);

  std::vector<std::uint32_t> parts_;  ///< width << 16 | start, in the order of decoding
  std::vector<std::uint32_t> lows_;   ///< shift << 16 | low bits, or empty where there are none
  std::vector<std::size_t> blocks_;   ///< sizes
  std::vector<std::byte> escapes_;
  std::vector<std::uint16_t> room_;
  double bits_ = 0;
};

}  // namespace gbcompress::codec::lanes
