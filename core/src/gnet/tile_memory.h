#pragma once
/// Where a plan's tiles lie.

#include <vector>

#include "gbcompress/tile_kernel.h"

namespace gbcompress {

/// Appends the memory of every tile of `grid` to `tiles`.
/// @param apart  true: `data` is a stack of whole tiles [tiles, tile_rows, tile_cols, kernel], for
///               layer types with a build of their own; false: `data` is the tensor itself
/// @param noise  the layer's stream where stochastic g-nets draw; null: they do not
template <typename Pointer>
void append_tiles(std::vector<TileMemory<Pointer>>& tiles, const TileGrid& grid, Pointer data,
                  bool apart, float scale, const RandomStream* noise = nullptr) {
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent extent = grid.extent(t);
    const TileNoise drawn{noise, static_cast<std::uint64_t>(t * grid.positions())};
    if (apart)
      tiles.push_back({data + t * grid.positions(), grid.tile_cols() * grid.kernel(), grid.kernel(),
                       extent.rows, extent.cols, scale, drawn});
    else
      tiles.push_back({data + extent.offset, extent.row_stride, extent.col_stride, extent.rows,
                       extent.cols, scale, drawn});
  }
}

}  // namespace gbcompress
