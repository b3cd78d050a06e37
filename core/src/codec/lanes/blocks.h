#pragma once
/// The integers of a grid, one block after another: whole in memory, or made when they are needed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "codec/lanes/layout.h"

namespace gbcompress::codec::lanes {

class Blocks {
 public:
  virtual ~Blocks() = default;
  /// The values of a block: where they lie, or copied into `room`. [thread-safe, each thread with a
  /// room of its own]
  virtual std::span<const std::int32_t> get(std::int64_t block,
                                            std::vector<std::int32_t>& room) const = 0;
};

/// Of a grid whose values are in memory.
class WholeGrid final : public Blocks {
 public:
  WholeGrid(const Shape& shape, std::span<const std::int32_t> values)
      : shape_(shape), values_(values) {}
  std::span<const std::int32_t> get(std::int64_t block, std::vector<std::int32_t>&) const override {
    return values_.subspan(static_cast<std::size_t>(shape_.first(block)),
                           static_cast<std::size_t>(shape_.size(block)));
  }

 private:
  Shape shape_;
  std::span<const std::int32_t> values_;
};

/// Parts of a grid's blocks that threads go through side by side.
inline std::int64_t parts_for(const Shape& shape, int threads) {
  return std::min<std::int64_t>(std::max(threads, 1), shape.blocks());
}

/// Calls body(part, block, values) for all blocks of all parts, those of a part in order.
template <typename Body>
void for_parts(const Shape& shape, const Blocks& blocks, std::int64_t parts, const Body& body) {
  parallel_tasks(static_cast<int>(parts), parts, [&](std::int64_t part) {
    std::vector<std::int32_t> room;
    for (std::int64_t block = part; block < shape.blocks(); block += parts)
      body(part, block, blocks.get(block, room));
  });
}

}  // namespace gbcompress::codec::lanes
