#pragma once
/// Where a specification's tiles lie.

#include <vector>

#include "gnet/tile_kernel.h"

namespace gbcompress {

/// What multiplies the gradient of a specification's weights on its way to the g-nets: the output
/// scale over the positions of a tile and the variance of the weights, as in torchGB.
inline float gradient_scale(const GNetSpec& spec) {
  const double std = spec.output_scale / 2;
  return static_cast<float>(spec.output_scale /
                            (static_cast<double>(spec.grid().positions()) * std * std));
}

/// Appends the memory of every tile of `grid` to `tiles`.
/// @param apart  true: `data` is a stack of whole tiles [tiles, tile_rows, tile_cols, kernel], for
///               layer types with a build of their own; false: `data` is the tensor itself
/// @param noise  the layer's stream where stochastic g-nets draw; null: they do not
/// @param log_deviation  beside `data`, of the same layout, or null
template <typename Pointer>
void append_tiles(std::vector<TileMemory<Pointer>>& tiles, const TileGrid& grid, Pointer data,
                  bool apart, float scale, const RandomStream* noise = nullptr,
                  Pointer log_deviation = nullptr) {
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent extent = grid.extent(t);
    const TileNoise drawn{noise, static_cast<std::uint64_t>(t * grid.positions())};
    const std::int64_t offset = apart ? t * grid.positions() : extent.offset;
    tiles.push_back({data + offset, apart ? grid.tile_cols() * grid.kernel() : extent.row_stride,
                     apart ? grid.kernel() : extent.col_stride, extent.rows, extent.cols, scale,
                     drawn, log_deviation ? log_deviation + offset : nullptr});
  }
}

}  // namespace gbcompress
