#pragma once
/// Tiles that are products of matrices, in plain loops on any scalar type; reference.h says why.

#include <vector>

#include "gnet/tile_kernel.h"

namespace gbcompress::reference {

/// The matrices of one g-net. A weight is sum_r left[i, r] * right[j, r]; the left one is X_out O
/// for kXox, A for kLowRank.
template <typename T>
struct Factors {
  std::int64_t rank, core = -1, right;  ///< offsets; core: of O
  std::vector<T> left;                  ///< [tile_rows, rank]

  /// left[i, s] = 0, then + X_out[i, r] * O[r, s] for r ascending.
  Factors(const BankShape& shape, const T* theta)
      : rank(shape.rank), right(shape.blocks.back().first) {
    if (shape.generator == Generator::kLowRank) {
      left.assign(theta, theta + right);
      return;
    }
    core = shape.blocks[1].first;
    left.assign(static_cast<std::size_t>(shape.tile_rows * rank), T(0));
    for (std::int64_t i = 0; i < shape.tile_rows; ++i)
      for (std::int64_t r = 0; r < rank; ++r)
        for (std::int64_t s = 0; s < rank; ++s)
          left[i * rank + s] += theta[i * rank + r] * theta[core + r * rank + s];
  }
};

/// Writes one tile: scale * (0, then + left[i, r] * right[j, r] for r ascending).
template <typename T>
void forward_product(const BankShape& shape, const T* theta, const TileMemory<T*>& tile) {
  const Factors<T> factors(shape, theta);
  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t j = 0; j < tile.cols; ++j)
      for (std::int64_t k = 0; k < shape.kernel; ++k) {
        const T* left = factors.left.data() + i * factors.rank;
        const T* right = theta + factors.right + (j * shape.kernel + k) * factors.rank;
        T sum = 0;
        for (std::int64_t r = 0; r < factors.rank; ++r) sum += left[r] * right[r];
        tile.data[i * tile.row_stride + j * tile.col_stride + k] = sum * T(tile.scale);
      }
}

/// Adds the gradient of one tile to `grad`.
template <typename T>
void backward_product(const BankShape& shape, const T* theta, const TileMemory<const T*>& tile,
                      T* grad) {
  const Factors<T> factors(shape, theta);
  const std::int64_t rank = factors.rank;
  std::vector<T> left_delta(factors.left.size());
  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t j = 0; j < tile.cols; ++j)
      for (std::int64_t k = 0; k < shape.kernel; ++k) {
        const T g = tile.data[i * tile.row_stride + j * tile.col_stride + k] * T(tile.scale);
        const std::int64_t at = factors.right + (j * shape.kernel + k) * rank;
        for (std::int64_t r = 0; r < rank; ++r) {
          left_delta[i * rank + r] += g * theta[at + r];
          grad[at + r] += g * factors.left[i * rank + r];
        }
      }
  for (std::int64_t i = 0; i < shape.tile_rows; ++i)
    for (std::int64_t r = 0; r < rank; ++r) {
      if (factors.core < 0) {
        grad[i * rank + r] += left_delta[i * rank + r];
        continue;
      }
      for (std::int64_t s = 0; s < rank; ++s) {
        grad[i * rank + r] += left_delta[i * rank + s] * theta[factors.core + r * rank + s];
        grad[factors.core + r * rank + s] += theta[i * rank + r] * left_delta[i * rank + s];
      }
    }
}

}  // namespace gbcompress::reference
