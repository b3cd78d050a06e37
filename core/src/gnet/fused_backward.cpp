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
constexpr int kBackwardRows = 6, kBackwardVectors = 2;
#else
constexpr int kBackwardRows = 6, kBackwardVectors = 1;
#endif
constexpr std::int64_t kChunk = 64;  // inner positions whose tables stay in the nearest cache

/// S and T of kRows outer positions and a chunk of inner ones, for kVectors vectors of hidden
/// units. S stays in registers; T is read and written once an inner position.
/// @param g  [kRows, kChunk]
template <int kRows, int kVectors, class D>
HWY_INLINE void BackwardBlock(D d, const float* HWY_RESTRICT a, const float* HWY_RESTRICT negated,
                              std::int64_t width, const float* HWY_RESTRICT g, std::int64_t count,
                              float* HWY_RESTRICT s, float* HWY_RESTRICT t) {
  using V = hn::Vec<D>;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  V x[kRows][kVectors], sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      x[r][v] = hn::Load(d, a + r * width + v * n);
      sums[r][v] = hn::Load(d, s + r * width + v * n);
    }
  }
  for (std::int64_t j = 0; j < count; ++j) {
    V b[kVectors], sumt[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      b[v] = hn::Load(d, negated + j * width + v * n);
      sumt[v] = hn::Load(d, t + j * width + v * n);
    }
    for (int r = 0; r < kRows; ++r) {
      const V value = hn::Set(d, g[r * kChunk + j]);
      for (int v = 0; v < kVectors; ++v) {
        const auto mask = hn::Gt(x[r][v], b[v]);
#if HWY_TARGET <= HWY_AVX3  // becomes two additions under a mask, without an "and"
        sums[r][v] = hn::IfThenElse(mask, hn::Add(sums[r][v], value), sums[r][v]);
        sumt[v] = hn::IfThenElse(mask, hn::Add(sumt[v], value), sumt[v]);
#else
        const V masked = hn::IfThenElseZero(mask, value);
        sums[r][v] = hn::Add(sums[r][v], masked);
        sumt[v] = hn::Add(sumt[v], masked);
#endif
      }
    }
    for (int v = 0; v < kVectors; ++v) hn::Store(sumt[v], d, t + j * width + v * n);
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][v], d, s + r * width + v * n);
}

/// All outer positions of one chunk.
/// @param g  [rows, kChunk]
template <int kVectors, class D>
void BackwardUnits(D d, const float* a, const float* negated, std::int64_t width, const float* g,
                   std::int64_t rows, std::int64_t count, float* s, float* t) {
  std::int64_t i = 0;
  const auto blocks = [&](auto block) {
    constexpr int kRows = decltype(block)::value;
    for (; i + kRows <= rows; i += kRows)
      BackwardBlock<kRows, kVectors>(d, a + i * width, negated, width, g + i * kChunk, count,
                                     s + i * width, t);
  };
  blocks(std::integral_constant<int, kBackwardRows>());
  blocks(std::integral_constant<int, kBackwardRows / 2>());
  blocks(std::integral_constant<int, 1>());
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

/// Copies inner positions [j, j + count) of all rows, scaled, to g [rows, kChunk].
/// @return their sum
double CopyChunk(const FusedPiece& piece, const float* data, float scale, std::int64_t j,
                 std::int64_t count, float* HWY_RESTRICT g) {
  const Full d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const FusedAxes& axes = piece.axes;
  const std::int64_t kernel = piece.shape.kernel;
  const auto factor = hn::Set(d, scale);
  double total = 0;
  for (std::int64_t i = 0; i < piece.rows(); ++i, g += kChunk) {
    const float* row = data + i * axes.outer_stride;
    float rest = 0;
    std::int64_t p = 0;
    if (axes.inner_stride == kernel) {
      auto sum = hn::Zero(d);
      for (; p + n <= count; p += n) {
        const auto value = hn::Mul(hn::LoadU(d, row + j + p), factor);
        sum = hn::Add(sum, value);
        hn::Store(value, d, g + p);
      }
      rest = hn::GetLane(hn::SumOfLanes(d, sum));
      for (; p < count; ++p) rest += g[p] = row[j + p] * scale;
    } else {
      for (; p < count; ++p)
        rest += g[p] = row[(j + p) / kernel * axes.inner_stride + (j + p) % kernel] * scale;
    }
    total += rest;
  }
  return total;
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
                  axis * width + rows * kChunk + 160);
  float* a = scratch.take(rows * width);
  float* s = scratch.take(rows * width);
  float* negated = scratch.take(inner * width);
  float* t = scratch.take(inner * width);
  float* products = scratch.take(inputs * width);
  float* kernel = scratch.take(shape.kernel * width);
  float* by_axis = scratch.take(axis * width);
  float* g = scratch.take(rows * kChunk);
  OuterTable(piece, width, a, products);
  NegatedTable(piece, width, products, kernel, negated);
  std::memset(s, 0, sizeof(float) * static_cast<std::size_t>(rows * width));
  std::memset(t, 0, sizeof(float) * static_cast<std::size_t>(inner * width));

  double total = 0;
  for (std::int64_t j = 0; j < inner; j += kChunk) {
    const std::int64_t count = std::min(kChunk, inner - j);
    total += CopyChunk(piece, data, scale, j, count, g);
    const auto units = [&](auto tag, auto vectors, std::int64_t h) {
      BackwardUnits<decltype(vectors)::value>(tag, a + h, negated + j * width + h, width, g, rows,
                                              count, s + h, t + j * width + h);
    };
    // Full vectors of hidden units, then the rest in the narrowest vector that holds it.
    std::int64_t h = 0;
    for (; hidden - h >= kBackwardVectors * lanes; h += kBackwardVectors * lanes)
      units(d, std::integral_constant<int, kBackwardVectors>(), h);
    for (; hidden - h >= lanes; h += lanes) units(d, std::integral_constant<int, 1>(), h);
    if (const std::int64_t rest = hidden - h; rest > 8)
      units(d, std::integral_constant<int, 1>(), h);
    else if (rest > 4)
      units(hn::CappedTag<float, 8>(), std::integral_constant<int, 1>(), h);
    else if (rest > 0)
      units(hn::CappedTag<float, 4>(), std::integral_constant<int, 1>(), h);
  }

  // Output layer; then S and T become the gradients of a and b.
  const float* w2 = theta + layers[1].weight;
  grad[layers[1].bias] += static_cast<float>(total);
  for (std::int64_t h = 0; h < width; h += lanes) {
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
