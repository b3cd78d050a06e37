#pragma once
/// Integers that wait to be encoded: each block of profile lanes in one, two or four bytes a value,
/// as its largest magnitude needs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/internal.h"
#include "codec/lanes/blocks.h"

namespace GBC_INTERNAL gbcompress {

using PackedBlock = std::vector<std::byte>;

/// @throws Error(kUsage) for a magnitude beyond kMaxMagnitude
PackedBlock pack_block(std::span<const std::int32_t> integers);
/// The blocks of a whole grid.
std::vector<PackedBlock> pack_grid(const IntegerGrid& grid, std::span<const std::int32_t> integers);
/// The blocks of these grids, as they lie one after another; nothing where the bytes are not those.
std::optional<std::vector<PackedBlock>> split_blocks(std::span<const std::byte> bytes,
                                                     std::span<const IntegerGrid> grids);

/// A grid of packed blocks.
class PackedGrid final : public codec::lanes::Blocks {
 public:
  /// Gives a block's packed bytes: where they lie, or copied into the room.
  using Load = std::function<std::span<const std::byte>(std::int64_t block, PackedBlock& room)>;

  PackedGrid(const IntegerGrid& grid, Load load) : shape_(grid), load_(std::move(load)) {}
  std::span<const std::int32_t> get(std::int64_t block,
                                    std::vector<std::int32_t>& room) const override;

 private:
  codec::lanes::Shape shape_;
  Load load_;
};

/// Calls visit(grid, blocks) for grids whose packed blocks follow one another.
/// @param load  load(place of the block among all, room), as PackedGrid::Load
template <typename Load, typename Visit>
void visit_packed(std::span<const IntegerGrid> grids, const Load& load, const Visit& visit) {
  std::int64_t first = 0;
  for (const IntegerGrid& grid : grids) {
    visit(grid, PackedGrid(grid, [&load, first](std::int64_t block, PackedBlock& room) {
            return load(static_cast<std::size_t>(first + block), room);
          }));
    first += codec::lanes::Shape(grid).blocks();
  }
}

}  // namespace gbcompress
