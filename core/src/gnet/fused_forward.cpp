// One hidden layer. With a(i) and b(j) the outer and inner halves of the first layer,
//     relu(a + b) = max(a, -b) + b,
// so a weight is base(j) + sum_h w2[h] * max(a[i,h], -b[j,h]), base(j) = b2 + sum_h w2[h] * b[j,h]:
// two vector operations a weight and hidden unit. Backward needs only the signs of a + b:
//     S[i,h] = sum_j g * (a > -b),   T[j,h] = sum_i g * (a > -b),
// and dW2 = sum a*S + sum b*T, da = w2 * S, db = w2 * T.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_forward.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on
#include <hwy/cache_control.h>

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
constexpr int kForwardVectors = 4;
#else
constexpr int kForwardVectors = 2;
#endif
constexpr int kForwardRows = 4;
constexpr std::int64_t kForwardBlock = 8;  // outer rows whose values stay in the nearest cache

/// negated[h, j] = -b[j, h] and base[j], lanes over j.
void InnerTables(const FusedPiece& piece, float* HWY_RESTRICT negated, float* HWY_RESTRICT base) {
  const Full d;
  const FusedCodes& codes = piece.codes;
  const float* theta = piece.theta;
  const auto layers = piece.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t stride = Padded(piece.axes.inner);
  const float* w2 = theta + layers[1].weight;
  for (std::int64_t j = 0; j < stride; j += n)
    hn::Store(hn::Set(d, theta[layers[1].bias]), d, base + j);
  for (std::int64_t h = 0; h < hidden; ++h) {
    const float* w1 = theta + layers[0].weight + h * inputs;
    const auto weight2 = hn::Set(d, w2[h]);
    for (std::int64_t j = 0; j < stride; j += n) {
      auto b = hn::Zero(d);
      const float* column = codes.inner_columns.data() + j;
      for (std::int64_t c = 0; c < codes.inner_width; ++c, column += codes.stride)
        b = hn::MulAdd(hn::Set(d, w1[codes.inner_input + c]), hn::LoadU(d, column), b);
      for (std::int64_t c = 0; c < codes.kernel_width; ++c, column += codes.stride)
        b = hn::MulAdd(hn::Set(d, w1[codes.kernel_input + c]), hn::LoadU(d, column), b);
      hn::Store(hn::Neg(b), d, negated + h * stride + j);
      hn::Store(hn::MulAdd(weight2, b, hn::Load(d, base + j)), d, base + j);
    }
  }
}

template <int kRows, int kVectors>
HWY_INLINE void ForwardBlock(const float* HWY_RESTRICT a, std::int64_t a_stride,
                             const float* HWY_RESTRICT negated, std::int64_t stride,
                             const float* HWY_RESTRICT base, const float* HWY_RESTRICT w2,
                             std::int64_t hidden, float* HWY_RESTRICT out) {
  const Full d;
  const std::size_t n = hn::Lanes(d);
  hn::Vec<Full> sum[kRows][kVectors];
  for (int v = 0; v < kVectors; ++v)
    for (int r = 0; r < kRows; ++r) sum[r][v] = hn::Load(d, base + v * n);
  for (std::int64_t h = 0; h < hidden; ++h) {
    const auto weight = hn::Set(d, w2[h]);
    hn::Vec<Full> b[kVectors];
    for (int v = 0; v < kVectors; ++v) b[v] = hn::Load(d, negated + h * stride + v * n);
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r * a_stride + h]);
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = hn::MulAdd(weight, hn::Max(x, b[v]), sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, out + r * stride + v * n);
}

template <int kRows>
void ForwardRows(const float* a, std::int64_t a_stride, const float* negated, std::int64_t stride,
                 std::int64_t inner, const float* base, const float* w2, std::int64_t hidden,
                 float* out) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(Full()));
  std::int64_t j = 0;
  while (j < inner) {
    const std::int64_t vectors = (inner - j + n - 1) / n;
    const auto call = [&](auto block) {
      constexpr int kVectors = decltype(block)::value;
      ForwardBlock<kRows, kVectors>(a, a_stride, negated + j, stride, base + j, w2, hidden,
                                    out + j);
      j += kVectors * n;
    };
    if (vectors >= kForwardVectors)
      call(std::integral_constant<int, kForwardVectors>());
    else if (vectors == 3)
      call(std::integral_constant<int, 3>());
    else if (vectors == 2)
      call(std::integral_constant<int, 2>());
    else
      call(std::integral_constant<int, 1>());
  }
}

/// Fetches rows that are written next: in a large tensor no cache has them, and as they lie far
/// apart the processor does not foresee them.
inline void PrefetchRows(const float* row, const FusedAxes& axes, std::int64_t rows) {
  constexpr std::int64_t kLine = 16;  // floats
  for (std::int64_t i = 0; i < rows; ++i, row += axes.outer_stride)
    for (std::int64_t j = 0; j < axes.inner; j += kLine) hwy::Prefetch(row + j);
}

void Forward(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  const FusedAxes& axes = piece.axes;
  const std::int64_t hidden = piece.shape.hidden[0], width = Padded(hidden);
  const std::int64_t stride = Padded(axes.inner), rows = piece.rows();
  scratch.reserve(hidden * stride + stride + rows * width + piece.codes.outer_width * width +
                  kForwardBlock * stride + 80);
  float* negated = scratch.take(hidden * stride);
  float* base = scratch.take(stride);
  float* a = scratch.take(rows * width);
  float* transposed = scratch.take(piece.codes.outer_width * width);
  float* out = scratch.take(kForwardBlock * stride);
  InnerTables(piece, negated, base);
  OuterTable(piece, width, a, transposed);
  const float* w2 = piece.theta + piece.layers()[1].weight;
  for (std::int64_t begin = 0; begin < rows; begin += kForwardBlock) {
    const std::int64_t end = std::min(rows, begin + kForwardBlock);
    std::int64_t i = begin;
    PrefetchRows(data + end * axes.outer_stride, axes, std::min(kForwardBlock, rows - end));
    for (; i + kForwardRows <= end; i += kForwardRows)
      ForwardRows<kForwardRows>(a + i * width, width, negated, stride, axes.inner, base, w2, hidden,
                                out + (i - begin) * stride);
    for (; i < end; ++i)
      ForwardRows<1>(a + i * width, width, negated, stride, axes.inner, base, w2, hidden,
                     out + (i - begin) * stride);
    StoreRows(piece, out, stride, end - begin, scale, data + begin * axes.outer_stride);
  }
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(Forward);
HWY_EXPORT(TargetName);

void fused_forward(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Forward)(piece, data, scale, scratch);
}

const char* fused_target_name() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace gbcompress
#endif  // HWY_ONCE
