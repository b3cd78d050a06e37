#pragma once
/// What ranks send each other in one step.

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "gbcompress/ranks.h"
#include "gnet/tile_kernel.h"

namespace gbcompress {

/// The tiles of one bank, computed by their owners. A bucket holds a part of every rank's tiles,
/// rank after rank and densely packed, so that one collective of bounded size serves all ranks;
/// while one bucket travels, the next is computed.
class OwnedTiles {
 public:
  /// @param rows  world + 1 numbers: tiles rows[r] up to rows[r + 1] belong to rank r
  OwnedTiles(Group& group, const BankShape& shape, std::vector<std::int64_t> rows);

  /// This rank's own g-nets.
  std::int64_t first() const { return rows_[static_cast<std::size_t>(group_.rank())]; }
  std::int64_t count() const {
    return rows_[static_cast<std::size_t>(group_.rank()) + 1] - first();
  }

  /// Whose the tiles [first, first + count) are, in order.
  std::vector<int> owners(std::int64_t first, std::int64_t count) const;

  /// Every rank gets every row of [all tiles, parameters] from its owner. [collective]
  void gather(at::Tensor numbers) const;

  /// Every rank gets all tiles. [collective]
  /// @param theta  [all tiles of the bank, parameters]; only this rank's rows are read
  void forward(const TileKernel& kernel, std::span<const float> theta,
               std::span<const TileTarget> tiles) const;
  /// Every rank's gradients, averaged, go to the owners, who add them to their own rows of `grad`.
  /// [collective]
  void backward(const TileKernel& kernel, std::span<const float> theta,
                std::span<const TileSource> tiles, std::span<float> grad) const;

 private:
  struct Bucket {
    std::vector<std::pair<std::int64_t, std::int64_t>> tiles;  ///< [first, last) of each rank
    std::vector<std::int64_t> pieces;                          ///< floats of each rank
    std::int64_t floats = 0;
    std::int64_t own = 0;  ///< where this rank's piece begins
  };
  template <typename Tile>
  std::vector<Bucket> buckets(std::span<const Tile> tiles) const;

  Group& group_;
  const BankShape& shape_;
  std::vector<std::int64_t> rows_;
};

}  // namespace gbcompress
