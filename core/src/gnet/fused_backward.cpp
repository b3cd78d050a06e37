// The way back through one hidden layer; fused_forward.cpp has the algebra.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "gnet/fused.h"
#include "gnet/fused_tables-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {

// Vector registers decide how large the register blocks are.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kBackwardRows = 4, kBackwardColumns = 4;
#else
constexpr int kBackwardRows = 3, kBackwardColumns = 2;
#endif

/// S and T of a block of kRows x kColumns positions, for as many hidden units as D has lanes.
template <int kRows, int kColumns, class D>
HWY_INLINE void BackwardBlock(D d, const float* HWY_RESTRICT a, const float* HWY_RESTRICT negated,
                              std::int64_t width, const float* HWY_RESTRICT g,
                              std::int64_t g_stride, float* HWY_RESTRICT s, float* HWY_RESTRICT t) {
  using V = hn::Vec<D>;
  V x[kRows], sums[kRows], b[kColumns], sumt[kColumns];
  for (int r = 0; r < kRows; ++r) {
    x[r] = hn::Load(d, a + r * width);
    sums[r] = hn::Load(d, s + r * width);
  }
  for (int c = 0; c < kColumns; ++c) {
    b[c] = hn::Load(d, negated + c * width);
    sumt[c] = hn::Load(d, t + c * width);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const V masked = hn::IfThenElseZero(hn::Gt(x[r], b[c]), hn::Set(d, g[r * g_stride + c]));
      sums[r] = hn::Add(sums[r], masked);
      sumt[c] = hn::Add(sumt[c], masked);
    }
  }
  for (int r = 0; r < kRows; ++r) hn::Store(sums[r], d, s + r * width);
  for (int c = 0; c < kColumns; ++c) hn::Store(sumt[c], d, t + c * width);
}

template <int kRows, class D>
HWY_INLINE void BackwardRows(D d, const float* a, const float* negated, std::int64_t width,
                             const float* g, std::int64_t g_stride, std::int64_t inner, float* s,
                             float* t) {
  std::int64_t j = 0;
  for (; j + kBackwardColumns <= inner; j += kBackwardColumns)
    BackwardBlock<kRows, kBackwardColumns>(d, a, negated + j * width, width, g + j, g_stride, s,
                                           t + j * width);
  for (; j < inner; ++j)
    BackwardBlock<kRows, 1>(d, a, negated + j * width, width, g + j, g_stride, s, t + j * width);
}

template <class D>
void BackwardUnits(D d, const float* a, const float* negated, std::int64_t width, const float* g,
                   std::int64_t rows, std::int64_t inner, float* s, float* t) {
  std::int64_t i = 0;
  for (; i + kBackwardRows <= rows; i += kBackwardRows)
    BackwardRows<kBackwardRows>(d, a + i * width, negated, width, g + i * inner, inner, inner,
                                s + i * width, t);
  for (; i < rows; ++i)
    BackwardRows<1>(d, a + i * width, negated, width, g + i * inner, inner, inner, s + i * width,
                    t);
}

/// grad[p, c] += sum_h delta[p, h] * w1[h, c]: what trained codes receive.
/// @param w1  first weight of these inputs; rows are `inputs` apart
void AddLatents(const float* delta, std::int64_t count, std::int64_t width, std::int64_t hidden,
                const float* w1, std::int64_t inputs, std::int64_t code_width, float* grad) {
  for (std::int64_t p = 0; p < count; ++p)
    for (std::int64_t c = 0; c < code_width; ++c) {
      float sum = 0;
      for (std::int64_t h = 0; h < hidden; ++h) sum += delta[p * width + h] * w1[h * inputs + c];
      grad[p * code_width + c] += sum;
    }
}

/// -(B[j] + C[k]) for all inner positions, lanes over h; `transposed` as in OuterTable.
void NegatedTable(const FusedPiece& piece, std::int64_t width, float* HWY_RESTRICT transposed,
                  float* HWY_RESTRICT kernel, float* HWY_RESTRICT negated) {
  const Full d;
  const BankShape& shape = piece.shape;
  const FusedCodes& codes = piece.codes;
  const float* theta = piece.theta;
  const std::int64_t inner = piece.axes.inner;
  const auto layers = piece.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t all = codes.inner_width + codes.kernel_width;
  std::memset(transposed, 0, sizeof(float) * static_cast<std::size_t>(all * width));
  for (std::int64_t h = 0; h < hidden; ++h) {
    const float* w1 = theta + layers[0].weight + h * inputs;
    for (std::int64_t c = 0; c < codes.inner_width; ++c)
      transposed[c * width + h] = w1[codes.inner_input + c];
    for (std::int64_t c = 0; c < codes.kernel_width; ++c)
      transposed[(codes.inner_width + c) * width + h] = w1[codes.kernel_input + c];
  }
  for (std::int64_t h = 0; h < width; h += n) {
    for (std::int64_t k = 0; k < shape.kernel; ++k) {
      auto sum = hn::Zero(d);
      for (std::int64_t c = 0; c < codes.kernel_width; ++c)
        sum = hn::MulAdd(hn::Set(d, codes.kernel_rows[k * codes.kernel_width + c]),
                         hn::Load(d, transposed + (codes.inner_width + c) * width + h), sum);
      hn::Store(sum, d, kernel + k * width + h);
    }
    for (std::int64_t j = 0; j * shape.kernel < inner; ++j) {
      auto sum = hn::Zero(d);
      for (std::int64_t c = 0; c < codes.inner_width; ++c)
        sum = hn::MulAdd(hn::Set(d, codes.inner_rows[j * codes.inner_width + c]),
                         hn::Load(d, transposed + c * width + h), sum);
      for (std::int64_t k = 0; k < shape.kernel; ++k)
        hn::Store(hn::Neg(hn::Add(sum, hn::Load(d, kernel + k * width + h))), d,
                  negated + (j * shape.kernel + k) * width + h);
    }
  }
}

void Backward(const FusedPiece& piece, const float* data, float scale, float* grad,
              FusedScratch& scratch) {
  const Full d;
  const BankShape& shape = piece.shape;
  const FusedCodes& codes = piece.codes;
  const float* theta = piece.theta;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto layers = piece.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const std::int64_t width = Padded(hidden), rows = piece.rows(), inner = piece.axes.inner;
  const std::int64_t axis = inner / shape.kernel;  // inner axis positions that exist
  scratch.reserve(2 * rows * width + 2 * inner * width + (inputs + shape.kernel) * width +
                  axis * width + rows * inner + 160);
  float* a = scratch.take(rows * width);
  float* s = scratch.take(rows * width);
  float* negated = scratch.take(inner * width);
  float* t = scratch.take(inner * width);
  float* products = scratch.take(inputs * width);
  float* kernel = scratch.take(shape.kernel * width);
  float* by_axis = scratch.take(axis * width);
  float* g = scratch.take(rows * inner);
  OuterTable(piece, width, a, products);
  NegatedTable(piece, width, products, kernel, negated);
  std::memset(s, 0, sizeof(float) * static_cast<std::size_t>(rows * width));
  std::memset(t, 0, sizeof(float) * static_cast<std::size_t>(inner * width));

  LoadRows(piece, data, scale, g);
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < inner; ++j) sum += g[i * inner + j];
    total += sum;
  }

  // Full vectors of hidden units, then the rest in the narrowest vector that holds it.
  std::int64_t h = 0;
  for (; hidden - h >= lanes; h += lanes)
    BackwardUnits(d, a + h, negated + h, width, g, rows, inner, s + h, t + h);
  if (const std::int64_t rest = hidden - h; rest > 8)
    BackwardUnits(d, a + h, negated + h, width, g, rows, inner, s + h, t + h);
  else if (rest > 4)
    BackwardUnits(hn::CappedTag<float, 8>(), a + h, negated + h, width, g, rows, inner, s + h,
                  t + h);
  else if (rest > 0)
    BackwardUnits(hn::CappedTag<float, 4>(), a + h, negated + h, width, g, rows, inner, s + h,
                  t + h);

  // Output layer; then S and T become the gradients of a and b.
  const float* w2 = theta + layers[1].weight;
  grad[layers[1].bias] += static_cast<float>(total);
  for (h = 0; h < width; h += lanes) {
    HWY_ALIGN float weight[64] = {};
    HWY_ALIGN float gradient[64] = {};
    std::copy(w2 + std::min(h, hidden), w2 + std::min(h + lanes, hidden), weight);
    const auto w = hn::Load(d, weight);
    auto sum = hn::Zero(d), bias = hn::Zero(d);
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto value = hn::Load(d, s + i * width + h);
      sum = hn::MulAdd(hn::Load(d, a + i * width + h), value, sum);
      const auto scaled = hn::Mul(w, value);
      bias = hn::Add(bias, scaled);
      hn::Store(scaled, d, s + i * width + h);
    }
    for (std::int64_t j = 0; j < inner; ++j) {
      const auto value = hn::Load(d, t + j * width + h);
      sum = hn::NegMulAdd(hn::Load(d, negated + j * width + h), value, sum);
      hn::Store(hn::Mul(w, value), d, t + j * width + h);
    }
    hn::Store(sum, d, gradient);
    for (std::int64_t k = h; k < std::min(h + lanes, hidden); ++k)
      grad[layers[1].weight + k] += gradient[k - h];
    hn::Store(bias, d, gradient);
    for (std::int64_t k = h; k < std::min(h + lanes, hidden); ++k)
      grad[layers[0].bias + k] += gradient[k - h];
    // Sums over kernel positions for the inner axis, over the axis for the kernel.
    for (std::int64_t k = 0; k < shape.kernel; ++k)
      hn::Store(hn::Zero(d), d, kernel + k * width + h);
    for (std::int64_t j = 0; j < axis; ++j) {
      auto along = hn::Zero(d);
      for (std::int64_t k = 0; k < shape.kernel; ++k) {
        const auto value = hn::Load(d, t + (j * shape.kernel + k) * width + h);
        along = hn::Add(along, value);
        hn::Store(hn::Add(hn::Load(d, kernel + k * width + h), value), d, kernel + k * width + h);
      }
      hn::Store(along, d, by_axis + j * width + h);
    }
  }
  std::memset(products, 0, sizeof(float) * static_cast<std::size_t>(inputs * width));
  AddProducts(s, rows, width, codes.outer_rows + piece.first * codes.outer_width, codes.outer_width,
              1, codes.outer_width, products + codes.outer_input * width);
  AddProducts(by_axis, axis, width, codes.inner_rows, codes.inner_width, 1, codes.inner_width,
              products + codes.inner_input * width);
  AddProducts(kernel, shape.kernel, width, codes.kernel_rows, codes.kernel_width, 1,
              codes.kernel_width, products + codes.kernel_input * width);
  for (std::int64_t k = 0; k < hidden; ++k)
    for (std::int64_t c = 0; c < inputs; ++c)
      grad[layers[0].weight + k * inputs + c] += products[c * width + k];
  const float* w1 = theta + layers[0].weight;
  if (codes.outer_latents >= 0)
    AddLatents(s, rows, width, hidden, w1 + codes.outer_input, inputs, codes.outer_width,
               grad + codes.outer_latents + piece.first * codes.outer_width);
  if (codes.inner_latents >= 0)
    AddLatents(by_axis, axis, width, hidden, w1 + codes.inner_input, inputs, codes.inner_width,
               grad + codes.inner_latents);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(Backward);

void fused_backward(const FusedPiece& piece, const float* data, float scale, float* grad,
                    FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Backward)(piece, data, scale, grad, scratch);
}

}  // namespace gbcompress
#endif  // HWY_ONCE
