#pragma once
/// Tiles and tensors by plain loops: what faster code is compared with.

#include <algorithm>

#include "gbcompress/tile_grid.h"

namespace gbcompress {

/// Copies a tensor into tiles [tiles, tile_rows, tile_cols, kernel]; cropped positions become 0.
inline void disassemble(const TileGrid& grid, const float* tensor, float* tiles) {
  const std::int64_t kernel = grid.kernel();
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent extent = grid.extent(t);
    float* tile = tiles + t * grid.positions();
    for (std::int64_t i = 0; i < grid.tile_rows(); ++i)
      for (std::int64_t j = 0; j < grid.tile_cols(); ++j) {
        float* to = tile + (i * grid.tile_cols() + j) * kernel;
        if (i < extent.rows && j < extent.cols)
          std::copy_n(tensor + extent.offset + i * extent.row_stride + j * extent.col_stride,
                      kernel, to);
        else
          std::fill_n(to, kernel, 0.0f);
      }
  }
}

/// The exact inverse: copies tiles into the tensor, cropped positions dropped.
inline void assemble(const TileGrid& grid, const float* tiles, float* tensor) {
  const std::int64_t kernel = grid.kernel();
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent extent = grid.extent(t);
    const float* tile = tiles + t * grid.positions();
    for (std::int64_t i = 0; i < extent.rows; ++i)
      for (std::int64_t j = 0; j < extent.cols; ++j)
        std::copy_n(tile + (i * grid.tile_cols() + j) * kernel, kernel,
                    tensor + extent.offset + i * extent.row_stride + j * extent.col_stride);
  }
}

}  // namespace gbcompress
