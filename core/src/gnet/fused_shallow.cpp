// One hidden layer. With a(i) and b(j) the outer and inner halves of the first layer,
//     relu(a + b) = max(a, -b) + b,
// so a weight is base(j) + sum_h w2[h] * max(a[i,h], -b[j,h]), base(j) = b2 + sum_h w2[h] * b[j,h]:
// two vector operations a weight and hidden unit. Backward needs only the signs of a + b:
//     S[i,h] = sum_j g * (a > -b),   T[j,h] = sum_i g * (a > -b),
// and dW2 = sum a*S + sum b*T, da = w2 * S, db = w2 * T.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_shallow.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "gnet/fused.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
// Vector registers decide how large the register blocks are.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kForwardRows = 4, kBackwardRows = 4, kBackwardColumns = 4;
#else
constexpr int kForwardRows = 2, kBackwardRows = 3, kBackwardColumns = 2;
#endif
constexpr std::int64_t kForwardBlock = 8;  // outer rows whose values stay in the nearest cache

inline std::int64_t Padded(std::int64_t n) { return (n + 15) / 16 * 16; }

/// negated[h, j] = -b[j, h] and base[j], lanes over j.
void InnerTables(const BankShape& shape, const FusedCodes& codes, const float* theta,
                 std::int64_t inner, float* HWY_RESTRICT negated, float* HWY_RESTRICT base) {
  const Full d;
  const auto layers = shape.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t stride = Padded(inner);
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
    for (int v = 0; v < kVectors; ++v)
      hn::Store(sum[r][v], d, out + r * stride + v * n);
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
    if (vectors >= 4) call(std::integral_constant<int, 4>());
    else if (vectors == 3) call(std::integral_constant<int, 3>());
    else if (vectors == 2) call(std::integral_constant<int, 2>());
    else call(std::integral_constant<int, 1>());
  }
}

/// a[i, h] with the bias inside, lanes over nothing: it is read one number at a time.
void OuterTable(const BankShape& shape, const FusedCodes& codes, const float* theta,
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

void Forward(const BankShape& shape, const FusedCodes& codes, const float* theta,
             const TileTarget& tile, const FusedAxes& axes, std::int64_t first, std::int64_t last,
             FusedScratch& scratch) {
  const std::int64_t hidden = shape.hidden[0], width = Padded(hidden);
  const std::int64_t stride = Padded(axes.inner), rows = last - first;
  scratch.reserve(hidden * stride + stride + rows * width + codes.outer_width * width +
                  kForwardBlock * stride + 80);
  float* negated = scratch.take(hidden * stride);
  float* base = scratch.take(stride);
  float* a = scratch.take(rows * width);
  float* transposed = scratch.take(codes.outer_width * width);
  float* out = scratch.take(kForwardBlock * stride);
  InnerTables(shape, codes, theta, axes.inner, negated, base);
  OuterTable(shape, codes, theta, first, last, width, a, transposed);
  const float* w2 = theta + shape.layers()[1].weight;
  const float scale = tile.scale;
  for (std::int64_t begin = 0; begin < rows; begin += kForwardBlock) {
    const std::int64_t end = std::min(rows, begin + kForwardBlock);
    std::int64_t i = begin;
    for (; i + kForwardRows <= end; i += kForwardRows)
      ForwardRows<kForwardRows>(a + i * width, width, negated, stride, axes.inner, base, w2, hidden,
                                out + (i - begin) * stride);
    for (; i < end; ++i)
      ForwardRows<1>(a + i * width, width, negated, stride, axes.inner, base, w2, hidden,
                     out + (i - begin) * stride);
    for (i = begin; i < end; ++i) {
      const float* values = out + (i - begin) * stride;
      float* row = tile.data + (first + i) * axes.outer_stride;
      if (axes.inner_stride == shape.kernel) {
        for (std::int64_t j = 0; j < axes.inner; ++j) row[j] = values[j] * scale;
      } else {
        for (std::int64_t j = 0; j < axes.inner; j += shape.kernel, row += axes.inner_stride)
          for (std::int64_t k = 0; k < shape.kernel; ++k) row[k] = values[j + k] * scale;
      }
    }
  }
}

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
      const V masked =
          hn::IfThenElseZero(hn::Gt(x[r], b[c]), hn::Set(d, g[r * g_stride + c]));
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

/// out[c, h] += sum over positions of values[p, h] * code[p, c].
void AddProducts(const float* values, std::int64_t count, std::int64_t width, const float* code,
                 std::int64_t code_width, float* HWY_RESTRICT out) {
  const Full d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t h = 0; h < width; h += n) {
    for (std::int64_t c = 0; c < code_width; ++c) {
      auto sum = hn::Load(d, out + c * width + h);
      for (std::int64_t p = 0; p < count; ++p)
        sum = hn::MulAdd(hn::Set(d, code[p * code_width + c]),
                         hn::Load(d, values + p * width + h), sum);
      hn::Store(sum, d, out + c * width + h);
    }
  }
}

/// -(B[j] + C[k]) for all inner positions, lanes over h; `transposed` as in OuterTable.
void NegatedTable(const BankShape& shape, const FusedCodes& codes, const float* theta,
                  std::int64_t inner, std::int64_t width, float* HWY_RESTRICT transposed,
                  float* HWY_RESTRICT kernel, float* HWY_RESTRICT negated) {
  const Full d;
  const auto layers = shape.layers();
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

void Backward(const BankShape& shape, const FusedCodes& codes, const float* theta,
              const TileSource& tile, const FusedAxes& axes, std::int64_t first, std::int64_t last,
              float* grad, FusedScratch& scratch) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto layers = shape.layers();
  const std::int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
  const std::int64_t width = Padded(hidden), rows = last - first, inner = axes.inner;
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
  OuterTable(shape, codes, theta, first, last, width, a, products);
  NegatedTable(shape, codes, theta, inner, width, products, kernel, negated);
  std::memset(s, 0, sizeof(float) * static_cast<std::size_t>(rows * width));
  std::memset(t, 0, sizeof(float) * static_cast<std::size_t>(inner * width));

  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = tile.data + (first + i) * axes.outer_stride;
    float* copy = g + i * inner;
    for (std::int64_t j = 0; j < inner; j += shape.kernel, row += axes.inner_stride)
      for (std::int64_t k = 0; k < shape.kernel; ++k) copy[j + k] = row[k] * tile.scale;
    float sum = 0;
    for (std::int64_t j = 0; j < inner; ++j) sum += copy[j];
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
    for (std::int64_t k = 0; k < shape.kernel; ++k) hn::Store(hn::Zero(d), d, kernel + k * width + h);
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
  AddProducts(s, rows, width, codes.outer_rows + first * codes.outer_width, codes.outer_width,
              products + codes.outer_input * width);
  AddProducts(by_axis, axis, width, codes.inner_rows, codes.inner_width,
              products + codes.inner_input * width);
  AddProducts(kernel, shape.kernel, width, codes.kernel_rows, codes.kernel_width,
              products + codes.kernel_input * width);
  for (std::int64_t k = 0; k < hidden; ++k)
    for (std::int64_t c = 0; c < inputs; ++c)
      grad[layers[0].weight + k * inputs + c] += products[c * width + k];
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);
HWY_EXPORT(TargetName);

void fused_forward(const BankShape& shape, const FusedCodes& codes, const float* theta,
                   const TileTarget& tile, const FusedAxes& axes, std::int64_t first,
                   std::int64_t last, FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Forward)(shape, codes, theta, tile, axes, first, last, scratch);
}

void fused_backward(const BankShape& shape, const FusedCodes& codes, const float* theta,
                    const TileSource& tile, const FusedAxes& axes, std::int64_t first,
                    std::int64_t last, float* grad, FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Backward)(shape, codes, theta, tile, axes, first, last, grad, scratch);
}

const char* fused_target_name() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace gbcompress
#endif  // HWY_ONCE
