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
inline void OuterTable(const BankShape& shape, const FusedCodes& codes, const float* theta,
                       std::int64_t first, std::int64_t last, std::int64_t stride,
                       float* HWY_RESTRICT a, float* HWY_RESTRICT transposed) {
  const Full d;
  const auto layers = shape.layers();
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#endif  // GBC_FUSED_TABLES_INL_H_
