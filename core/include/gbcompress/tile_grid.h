#pragma once
/// How one parameter is seen as matrices, and how a matrix is cut into tiles. No LibTorch.

#include <cstdint>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Which dimensions of a tensor are the rows (outputs) and columns (inputs) of its matrix. All
/// other dimensions are kernel positions, and they must come last in memory.
///   linear [out, in]          rows 0, cols 1
///   conv [out, in, k...]      rows 0, cols 1      transposed conv [in, out, k...]  rows 1, cols 0
///   in_proj [3E, E]           rows 0, cols 1, row_splits 3: three matrices, each with its own
///   tiles a vector [n]              rows 0, cols -1
struct MatrixView {
  int row_dim = 0;
  int col_dim = 1;              ///< -1: the tensor has no column dimension
  std::int64_t row_splits = 1;  ///< the row dimension holds this many matrices, one after another
  std::int64_t col_splits = 1;

  bool operator==(const MatrixView&) const = default;
};

/// Where one tile lies in the contiguous tensor, in elements. Positions (i, j, k) of the tile map
/// to `offset + i * row_stride + j * col_stride + k`, for i < rows, j < cols, k < kernel.
struct TileExtent {
  std::int64_t offset = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  std::int64_t rows = 0;  ///< rows that exist: the last tile of a matrix may be cropped
  std::int64_t cols = 0;
};

/// The exact partition of a tensor into equal tiles, the last ones cropped.
/// Tiles are numbered matrix by matrix (row splits outer, column splits inner), then by rows of
/// tiles, then by columns of tiles.
class TileGrid {
 public:
  /// @param shape  1 to 8 dimensions, each >= 1, product below 2^62
  /// @param tile_rows, tile_cols  1 <= side <= the matrix's own side
  /// @throws Error(kShapeMismatch) where view, shape and tile sides do not fit together
  TileGrid(std::vector<std::int64_t> shape, MatrixView view, std::int64_t tile_rows,
           std::int64_t tile_cols);

  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  std::int64_t rows() const noexcept { return rows_; }      ///< of one matrix
  std::int64_t cols() const noexcept { return cols_; }      ///< of one matrix
  std::int64_t kernel() const noexcept { return kernel_; }  ///< kernel positions, at least 1
  std::int64_t tile_rows() const noexcept { return tile_rows_; }
  std::int64_t tile_cols() const noexcept { return tile_cols_; }
  std::int64_t tiles() const noexcept { return matrices_ * grid_rows_ * grid_cols_; }
  /// Positions of one uncropped tile: tile_rows * tile_cols * kernel.
  std::int64_t positions() const noexcept { return tile_rows_ * tile_cols_ * kernel_; }
  std::int64_t elements() const noexcept { return elements_; }
  TileExtent extent(std::int64_t tile) const;

 private:
  std::vector<std::int64_t> shape_;
  MatrixView view_;
  std::int64_t rows_, cols_, kernel_, tile_rows_, tile_cols_;
  std::int64_t matrices_, grid_rows_, grid_cols_, elements_;
  std::int64_t row_stride_, col_stride_;
};

/// The matrix a view makes of a shape. @throws Error(kShapeMismatch)
struct MatrixSides {
  std::int64_t rows = 0, cols = 0, kernel = 0;
  std::vector<std::int64_t> kernel_dims;
};
MatrixSides matrix_sides(const std::vector<std::int64_t>& shape, const MatrixView& view);

}  // namespace gbcompress
