// Products of matrices: w[i, j] = sum_r left[i, r] * right[j, r], where left is A or X_out O.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_product.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstring>

#include "gnet/fused.h"
#include "gnet/fused_tables-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kRowBlock = 8;  // outer rows whose values stay in the nearest cache

/// Rows [first, last) of the left matrix, padded to `width`.
/// @param core  [rank, width], filled with O for kXox
void LeftTable(const FusedPiece& piece, std::int64_t width, float* left, float* core) {
  const std::int64_t rank = piece.shape.rank, rows = piece.rows();
  const float* x = piece.theta + piece.first * rank;
  std::memset(left, 0, sizeof(float) * static_cast<std::size_t>(rows * width));
  if (piece.shape.generator == Generator::kLowRank) {
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(x + i * rank, rank, left + i * width);
    return;
  }
  std::memset(core, 0, sizeof(float) * static_cast<std::size_t>(rank * width));
  for (std::int64_t r = 0; r < rank; ++r)
    std::copy_n(piece.theta + piece.shape.blocks[1].first + r * rank, rank, core + r * width);
  AddProducts(core, rank, width, x, 1, rank, rows, left);
}

void ForwardProduct(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  const std::int64_t rank = piece.shape.rank, width = Padded(rank), rows = piece.rows();
  const std::int64_t inner = piece.axes.inner, stride = Padded(inner);
  scratch.reserve(rows * width + rank * width + rank * stride + kRowBlock * stride + 80);
  float* left = scratch.take(rows * width);
  float* core = scratch.take(rank * width);
  float* right = scratch.take(rank * stride);
  float* out = scratch.take(kRowBlock * stride);
  LeftTable(piece, width, left, core);
  const float* theta = piece.theta + piece.shape.blocks.back().first;
  std::memset(right, 0, sizeof(float) * static_cast<std::size_t>(rank * stride));
  for (std::int64_t j = 0; j < inner; ++j)
    for (std::int64_t r = 0; r < rank; ++r) right[r * stride + j] = theta[j * rank + r];
  for (std::int64_t begin = 0; begin < rows; begin += kRowBlock) {
    const std::int64_t count = std::min(rows - begin, kRowBlock);
    std::memset(out, 0, sizeof(float) * static_cast<std::size_t>(count * stride));
    AddProducts(right, rank, stride, left + begin * width, 1, width, count, out);
    StoreRows(piece, out, stride, count, scale, data + begin * piece.axes.outer_stride);
  }
}

void BackwardProduct(const FusedPiece& piece, const float* data, float scale, float* grad,
                     FusedScratch& scratch) {
  const BankShape& shape = piece.shape;
  const std::int64_t rank = shape.rank, width = Padded(rank), rows = piece.rows();
  const std::int64_t inner = piece.axes.inner, last = shape.blocks.back().first;
  scratch.reserve(2 * rows * width + rank * width + 2 * inner * width + rows * inner + 96);
  float* left = scratch.take(rows * width);
  float* delta = scratch.take(rows * width);
  float* core = scratch.take(rank * width);
  float* right = scratch.take(inner * width);
  float* right_delta = scratch.take(inner * width);
  float* g = scratch.take(rows * inner);
  LeftTable(piece, width, left, core);
  std::memset(right, 0, sizeof(float) * static_cast<std::size_t>(inner * width));
  std::memset(right_delta, 0, sizeof(float) * static_cast<std::size_t>(inner * width));
  std::memset(delta, 0, sizeof(float) * static_cast<std::size_t>(rows * width));
  for (std::int64_t j = 0; j < inner; ++j)
    std::copy_n(piece.theta + last + j * rank, rank, right + j * width);
  LoadRows(piece, data, scale, g);
  AddProducts(right, inner, width, g, 1, inner, rows, delta);
  AddProducts(left, rows, width, g, inner, 1, inner, right_delta);
  for (std::int64_t j = 0; j < inner; ++j)
    for (std::int64_t r = 0; r < rank; ++r) grad[last + j * rank + r] += right_delta[j * width + r];
  const float* x = piece.theta + piece.first * rank;
  float* grad_x = grad + piece.first * rank;
  if (shape.generator == Generator::kLowRank) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t r = 0; r < rank; ++r) grad_x[i * rank + r] += delta[i * width + r];
    return;
  }
  float* grad_core = grad + shape.blocks[1].first;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t r = 0; r < rank; ++r) {
      float sum = 0;
      for (std::int64_t s = 0; s < rank; ++s) {
        sum += delta[i * width + s] * core[r * width + s];
        grad_core[r * rank + s] += x[i * rank + r] * delta[i * width + s];
      }
      grad_x[i * rank + r] += sum;
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(ForwardProduct);
HWY_EXPORT(BackwardProduct);

void fused_forward_product(const FusedPiece& piece, float* data, float scale,
                           FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardProduct)(piece, data, scale, scratch);
}

void fused_backward_product(const FusedPiece& piece, const float* data, float scale, float* grad,
                            FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardProduct)(piece, data, scale, grad, scratch);
}

}  // namespace gbcompress
#endif  // HWY_ONCE
