#pragma once
/// How the integers of a grid lie in lanes (docs/reference/lanes.md, "Lines, blocks, stripes").

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gbcompress/codec.h"

namespace gbcompress::codec::lanes {

inline constexpr std::int64_t kLaneCount = 64;
/// Values of a block, and of a stripe, at most.
inline constexpr std::int64_t kStripeValues = std::int64_t{1} << 20;

/// A grid as lines of `width` values, which share a row class; blocks are whole lines.
struct Shape {
  std::int64_t values = 0, width = 0, lines = 0, block_lines = 0;

  Shape() = default;
  explicit Shape(const IntegerGrid& grid)
      : values(grid.rows * grid.cols),
        width(grid.rows < 2 || grid.cols < 2 || grid.cols > kStripeValues ? kLaneCount : grid.cols),
        lines((values + width - 1) / width),
        block_lines(std::max<std::int64_t>(1, kStripeValues / width)) {}

  std::int64_t blocks() const { return (lines + block_lines - 1) / block_lines; }
  std::int64_t block_values() const { return block_lines * width; }
  std::int64_t first(std::int64_t block) const { return block * block_values(); }
  std::int64_t size(std::int64_t block) const {
    return std::min(values - first(block), block_values());
  }
};

/// One block of one grid.
struct Piece {
  std::size_t grid;
  std::int64_t block;
};

/// Puts the blocks of grids into stripes, in order.
class Stripes {
 public:
  void add(const Shape& shape) {
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      if (begins_stripe(shape.size(block))) pieces_.emplace_back();
      pieces_.back().push_back({grids_, block});
      filled_ += shape.size(block);
    }
    ++grids_;
  }
  const std::vector<std::vector<Piece>>& pieces() const { return pieces_; }

 private:
  bool begins_stripe(std::int64_t size) {
    if (!pieces_.empty() && filled_ + size <= kStripeValues) return false;
    filled_ = 0;
    return true;
  }

  std::vector<std::vector<Piece>> pieces_;
  std::int64_t filled_ = 0;
  std::size_t grids_ = 0;
};

}  // namespace gbcompress::codec::lanes
