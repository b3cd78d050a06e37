#include "gbcompress/gnet.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

[[noreturn]] void mismatch(const std::string& sentence) {
  throw Error(Errc::kShapeMismatch, sentence);
}

std::int64_t split_side(std::int64_t side, std::int64_t splits, const char* what) {
  if (splits < 1 || side % splits != 0)
    mismatch("the " + std::string(what) + " dimension of " + std::to_string(side) +
             " cannot be split into " + std::to_string(splits) + " equal matrices");
  return side / splits;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

}  // namespace

MatrixSides matrix_sides(const std::vector<std::int64_t>& shape, const MatrixView& view) {
  if (shape.empty() || shape.size() > 8)
    mismatch("a tensor of " + std::to_string(shape.size()) +
             " dimensions has no matrix view; 1 to 8 are allowed");
  std::int64_t elements = 1;
  for (std::int64_t side : shape) {
    if (side < 1) mismatch("a tensor with a side of " + std::to_string(side) + " has no tiles");
    if (__builtin_mul_overflow(elements, side, &elements) || elements >= kMaxElements)
      mismatch("a tensor of 2^62 elements or more cannot be tiled");
  }
  // Kernel positions lie last in memory, so rows and columns are the leading dimensions.
  const bool vector = view.col_dim == -1;
  const bool leading =
      vector ? view.row_dim == 0
             : (view.row_dim == 0 && view.col_dim == 1) || (view.row_dim == 1 && view.col_dim == 0);
  if (!leading || (!vector && shape.size() < 2))
    mismatch("row dimension " + std::to_string(view.row_dim) + " and column dimension " +
             std::to_string(view.col_dim) + " do not fit a tensor of " +
             std::to_string(shape.size()) + " dimensions: they must be its first ones");

  MatrixSides sides;
  sides.rows = split_side(shape[static_cast<std::size_t>(view.row_dim)], view.row_splits, "row");
  sides.cols = split_side(vector ? 1 : shape[static_cast<std::size_t>(view.col_dim)],
                          view.col_splits, "column");
  sides.kernel_dims.assign(shape.begin() + (vector ? 1 : 2), shape.end());
  sides.kernel = 1;
  for (std::int64_t side : sides.kernel_dims) sides.kernel *= side;
  return sides;
}

TileGrid::TileGrid(std::vector<std::int64_t> shape, MatrixView view, std::int64_t tile_rows,
                   std::int64_t tile_cols)
    : shape_(std::move(shape)), view_(view), tile_rows_(tile_rows), tile_cols_(tile_cols) {
  const MatrixSides sides = matrix_sides(shape_, view_);
  rows_ = sides.rows;
  cols_ = sides.cols;
  kernel_ = sides.kernel;
  if (tile_rows_ < 1 || tile_rows_ > rows_ || tile_cols_ < 1 || tile_cols_ > cols_)
    mismatch("a tile of " + std::to_string(tile_rows_) + " x " + std::to_string(tile_cols_) +
             " does not fit a matrix of " + std::to_string(rows_) + " x " + std::to_string(cols_));
  matrices_ = view_.row_splits * view_.col_splits;
  grid_rows_ = ceil_div(rows_, tile_rows_);
  grid_cols_ = ceil_div(cols_, tile_cols_);
  elements_ = matrices_ * rows_ * cols_ * kernel_;
  // The later of the two leading dimensions steps over the kernel, the earlier one over both.
  row_stride_ = col_stride_ = kernel_;
  if (view_.col_dim == 1) row_stride_ = shape_[1] * kernel_;
  if (view_.col_dim == 0) col_stride_ = shape_[1] * kernel_;
}

TileExtent TileGrid::extent(std::int64_t tile) const {
  if (tile < 0 || tile >= tiles())
    mismatch("tile " + std::to_string(tile) + " of a grid of " + std::to_string(tiles()));
  const std::int64_t per_matrix = grid_rows_ * grid_cols_;
  const std::int64_t matrix = tile / per_matrix;
  const std::int64_t tile_row = tile % per_matrix / grid_cols_;
  const std::int64_t tile_col = tile % grid_cols_;
  const std::int64_t row = tile_row * tile_rows_;
  const std::int64_t col = tile_col * tile_cols_;
  return {.offset = (matrix / view_.col_splits * rows_ + row) * row_stride_ +
                    (matrix % view_.col_splits * cols_ + col) * col_stride_,
          .row_stride = row_stride_,
          .col_stride = col_stride_,
          .rows = std::min(tile_rows_, rows_ - row),
          .cols = std::min(tile_cols_, cols_ - col)};
}

}  // namespace gbcompress
