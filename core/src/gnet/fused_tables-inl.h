// What the forward and the backward pass share, compiled once for each instruction set; hence the
// guard that switches with every pass of foreach_target.
#if defined(GBC_FUSED_TABLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_FUSED_TABLES_INL_H_
#undef GBC_FUSED_TABLES_INL_H_
#else
#define GBC_FUSED_TABLES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "gnet/fused.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;

inline std::int64_t Padded(std::int64_t n) { return (n + 15) / 16 * 16; }

/// a[i, h] with the bias inside, lanes over nothing: it is read one number at a time.
inline void OuterTable(const FusedPiece& piece, std::int64_t stride, float* HWY_RESTRICT a,
                       float* HWY_RESTRICT transposed) {
  const Full d;
  const FusedCodes& codes = piece.codes;
  const float* theta = piece.theta;
  const std::int64_t first = piece.first, last = piece.last;
  const auto layers = piece.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  // transposed[c, h] of the outer inputs, so that the lanes run over h.
  std::memset(transposed, 0, sizeof(float) * static_cast<std::size_t>(codes.outer_width * stride));
  for (std::int64_t h = 0; h < hidden; ++h)
    for (std::int64_t c = 0; c < codes.outer_width; ++c)
      transposed[c * stride + h] = theta[layers[0].weight + h * inputs + codes.outer_input + c];
  for (std::int64_t h = 0; h < stride; h += n) {
    HWY_ALIGN float bias[64] = {};
    std::copy(theta + layers[0].bias + std::min(h, hidden),
              theta + layers[0].bias + std::min(h + n, hidden), bias);
    for (std::int64_t i = first; i < last; ++i) {
      auto sum = hn::Load(d, bias);
      for (std::int64_t c = 0; c < codes.outer_width; ++c)
        sum = hn::MulAdd(hn::Set(d, codes.outer_rows[i * codes.outer_width + c]),
                         hn::Load(d, transposed + c * stride + h), sum);
      hn::Store(sum, d, a + (i - first) * stride + h);
    }
  }
}

/// out[c, h] += sum over positions p of code[p, c] * values[p, h]; strides of code in floats.
inline void AddProducts(const float* values, std::int64_t count, std::int64_t width,
                        const float* code, std::int64_t p_stride, std::int64_t c_stride,
                        std::int64_t c_count, float* HWY_RESTRICT out) {
  const Full d;
  using V = hn::Vec<Full>;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t h = 0; h < width; h += n) {
    std::int64_t c = 0;
    for (; c + 4 <= c_count; c += 4) {  // four sums side by side hide the latency of each
      V sum[4];
      for (int k = 0; k < 4; ++k) sum[k] = hn::Load(d, out + (c + k) * width + h);
      for (std::int64_t p = 0; p < count; ++p) {
        const V value = hn::Load(d, values + p * width + h);
        for (int k = 0; k < 4; ++k)
          sum[k] = hn::MulAdd(hn::Set(d, code[p * p_stride + (c + k) * c_stride]), value, sum[k]);
      }
      for (int k = 0; k < 4; ++k) hn::Store(sum[k], d, out + (c + k) * width + h);
    }
    for (; c < c_count; ++c) {
      V sum = hn::Load(d, out + c * width + h);
      for (std::int64_t p = 0; p < count; ++p)
        sum = hn::MulAdd(hn::Set(d, code[p * p_stride + c * c_stride]),
                         hn::Load(d, values + p * width + h), sum);
      hn::Store(sum, d, out + c * width + h);
    }
  }
}

/// Rows [0, rows) of a piece's values to the tensor, times scale.
inline void StoreRows(const FusedPiece& piece, const float* values, std::int64_t stride,
                      std::int64_t rows, float scale, float* data) {
  const FusedAxes& axes = piece.axes;
  const std::int64_t kernel = piece.shape.kernel;
  for (std::int64_t i = 0; i < rows; ++i, values += stride) {
    float* row = data + i * axes.outer_stride;
    if (axes.inner_stride == kernel) {
      for (std::int64_t j = 0; j < axes.inner; ++j) row[j] = values[j] * scale;
    } else {
      for (std::int64_t j = 0; j < axes.inner; j += kernel, row += axes.inner_stride)
        for (std::int64_t k = 0; k < kernel; ++k) row[k] = values[j + k] * scale;
    }
  }
}

/// A piece's gradient as dense rows [rows, inner], times scale.
inline void LoadRows(const FusedPiece& piece, const float* data, float scale, float* dense) {
  const FusedAxes& axes = piece.axes;
  const std::int64_t kernel = piece.shape.kernel;
  for (std::int64_t i = 0; i < piece.rows(); ++i, dense += axes.inner) {
    const float* row = data + i * axes.outer_stride;
    for (std::int64_t j = 0; j < axes.inner; j += kernel, row += axes.inner_stride)
      for (std::int64_t k = 0; k < kernel; ++k) dense[j + k] = row[k] * scale;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#endif  // GBC_FUSED_TABLES_INL_H_
