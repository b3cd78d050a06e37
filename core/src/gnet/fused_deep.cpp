// Two or more hidden layers, e.g. 20-30-10-1 over a whole layer. A block of inner positions of one
// outer row goes through all layers before the next: activations of one block are all that is ever
// stored. Lanes run over positions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_deep.cpp"
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
using V = hn::Vec<Full>;
constexpr std::int64_t kBlock = 256;  // positions; four of the longest vectors there are
// Register blocks: kTile x kVectors, and kGradientRows x kTile, sums at a time.
constexpr int kTile = 4;
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kVectors = 4, kGradientRows = 4;
#else
constexpr int kVectors = 2, kGradientRows = 2;
#endif

inline std::int64_t Padded(std::int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }
inline std::int64_t N() { return static_cast<std::int64_t>(hn::Lanes(Full())); }

/// out[o, p] = bias[o] + sum_h weight[o, h] * x[h, p], p < count; relu where set.
template <int kRows>
void LayerRows(const float* weight, const float* bias, std::int64_t inputs, const float* x,
               std::int64_t count, bool relu, float* out) {
  const Full d;
  const std::int64_t n = N();
  for (std::int64_t p = 0; p < count; p += kVectors * n) {
    V sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Set(d, bias[r]);
    for (std::int64_t h = 0; h < inputs; ++h) {
      V value[kVectors];
      for (int v = 0; v < kVectors; ++v) value[v] = hn::Load(d, x + h * kBlock + p + v * n);
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weight[r * inputs + h]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(w, value[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        hn::Store(relu ? hn::Max(sum[r][v], hn::Zero(d)) : sum[r][v], d,
                  out + r * kBlock + p + v * n);
  }
}

void Layer(const float* weight, const float* bias, std::int64_t inputs, std::int64_t outputs,
           const float* x, std::int64_t count, bool relu, float* out) {
  std::int64_t o = 0;
  const auto rows = [&](auto block) {
    constexpr int kRows = decltype(block)::value;
    for (; o + kRows <= outputs; o += kRows)
      LayerRows<kRows>(weight + o * inputs, bias + o, inputs, x, count, relu, out + o * kBlock);
  };
  rows(std::integral_constant<int, kTile>());
  rows(std::integral_constant<int, 2>());
  rows(std::integral_constant<int, 1>());
}

/// Adds sum_p delta[o, p] * x[h, p] to grad_weight[o, h] for kRows x kColumns of them.
template <int kRows, int kColumns>
void GradientBlock(const float* delta, const float* x, std::int64_t inputs, std::int64_t count,
                   float* grad_weight) {
  const Full d;
  V sum[kRows][kColumns];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
  for (std::int64_t p = 0; p < count; p += N()) {
    V value[kColumns];
    for (int c = 0; c < kColumns; ++c) value[c] = hn::Load(d, x + c * kBlock + p);
    for (int r = 0; r < kRows; ++r) {
      const V row = hn::Load(d, delta + r * kBlock + p);
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(row, value[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c)
      grad_weight[r * inputs + c] += hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
}

/// grad_weight[o, h] += sum_p delta[o, p] * x[h, p] and grad_bias[o] += sum_p delta[o, p].
void LayerGradient(const float* delta, const float* x, std::int64_t inputs, std::int64_t outputs,
                   std::int64_t count, float* grad_weight, float* grad_bias) {
  const Full d;
  std::int64_t o = 0;
  const auto rows = [&](auto block) {
    constexpr int kRows = decltype(block)::value;
    for (; o + kRows <= outputs; o += kRows) {
      const float* row = delta + o * kBlock;
      float* grad = grad_weight + o * inputs;
      std::int64_t h = 0;
      for (; h + kTile <= inputs; h += kTile)
        GradientBlock<kRows, kTile>(row, x + h * kBlock, inputs, count, grad + h);
      for (; h < inputs; ++h) GradientBlock<kRows, 1>(row, x + h * kBlock, inputs, count, grad + h);
    }
  };
  rows(std::integral_constant<int, kGradientRows>());
  rows(std::integral_constant<int, 1>());
  for (o = 0; o < outputs; ++o) {
    V bias = hn::Zero(d);
    for (std::int64_t p = 0; p < count; p += N())
      bias = hn::Add(bias, hn::Load(d, delta + o * kBlock + p));
    grad_bias[o] += hn::GetLane(hn::SumOfLanes(d, bias));
  }
}

/// out[h, p] = x[h, p] > 0 ? sum_o weight[o, h] * delta[o, p] : 0, for kRows of the h.
template <int kRows>
void BackRows(const float* weight, const float* delta, std::int64_t inputs, std::int64_t outputs,
              const float* x, std::int64_t count, float* out) {
  const Full d;
  const std::int64_t n = N();
  for (std::int64_t p = 0; p < count; p += kVectors * n) {
    V sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
    for (std::int64_t o = 0; o < outputs; ++o) {
      V value[kVectors];
      for (int v = 0; v < kVectors; ++v) value[v] = hn::Load(d, delta + o * kBlock + p + v * n);
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weight[o * inputs + r]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(w, value[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) {
        const std::int64_t at = r * kBlock + p + v * n;
        hn::Store(hn::IfThenElseZero(hn::Gt(hn::Load(d, x + at), hn::Zero(d)), sum[r][v]), d,
                  out + at);
      }
  }
}

void LayerBack(const float* weight, const float* delta, std::int64_t inputs, std::int64_t outputs,
               const float* x, std::int64_t count, float* out) {
  std::int64_t h = 0;
  const auto rows = [&](auto block) {
    constexpr int kRows = decltype(block)::value;
    for (; h + kRows <= inputs; h += kRows)
      BackRows<kRows>(weight + h, delta, inputs, outputs, x + h * kBlock, count, out + h * kBlock);
  };
  rows(std::integral_constant<int, kTile>());
  rows(std::integral_constant<int, 2>());
  rows(std::integral_constant<int, 1>());
}

/// What one call needs: b[h, j] of the first layer, and activations of one block a layer.
struct Work {
  std::vector<BankShape::Layer> layers;
  std::int64_t stride = 0;
  float* a = nullptr;     ///< [hidden], of the current outer position
  float* b = nullptr;     ///< [hidden, stride]
  std::vector<float*> x;  ///< after each hidden layer, [outputs, kBlock]
};

std::int64_t WorkFloats(const BankShape& shape, std::int64_t inner) {
  std::int64_t floats = shape.hidden[0] * (Padded(inner) + 1) + 64;
  for (std::int64_t width : shape.hidden) floats += width * kBlock + 16;
  return floats;
}

Work MakeWork(const FusedPiece& piece, FusedScratch& scratch) {
  const Full d;
  const BankShape& shape = piece.shape;
  const FusedCodes& codes = piece.codes;
  const float* theta = piece.theta;
  const std::int64_t inner = piece.axes.inner;
  Work work;
  work.layers = piece.layers();
  work.stride = Padded(inner);
  work.a = scratch.take(shape.hidden[0]);
  work.b = scratch.take(shape.hidden[0] * work.stride);
  for (std::int64_t width : shape.hidden) work.x.push_back(scratch.take(width * kBlock));
  const auto& first = work.layers[0];
  for (std::int64_t h = 0; h < first.outputs; ++h) {
    const float* w1 = theta + first.weight + h * first.inputs;
    float* row = work.b + h * work.stride;
    std::memset(row, 0, sizeof(float) * static_cast<std::size_t>(work.stride));
    for (std::int64_t c = 0; c < codes.inner_width + codes.kernel_width; ++c) {
      const V w =
          hn::Set(d, c < codes.inner_width ? w1[codes.inner_input + c]
                                           : w1[codes.kernel_input + c - codes.inner_width]);
      const float* column = codes.inner_columns.data() + c * codes.stride;
      for (std::int64_t j = 0; j < inner; j += N())  // both rows are padded to whole vectors
        hn::Store(hn::MulAdd(w, hn::LoadU(d, column + j), hn::Load(d, row + j)), d, row + j);
    }
  }
  return work;
}

void SetOuter(Work& work, const FusedCodes& codes, const float* theta, std::int64_t i) {
  const auto& first = work.layers[0];
  for (std::int64_t h = 0; h < first.outputs; ++h) {
    const float* w1 = theta + first.weight + h * first.inputs + codes.outer_input;
    float sum = theta[first.bias + h];
    for (std::int64_t c = 0; c < codes.outer_width; ++c)
      sum += w1[c] * codes.outer_rows[i * codes.outer_width + c];
    work.a[h] = sum;
  }
}

/// Positions of the block at inner position j, padded to what the register blocks take.
std::int64_t BlockCount(std::int64_t inner, std::int64_t j) {
  const std::int64_t unit = kVectors * N();
  return std::min(kBlock, (inner - j + unit - 1) / unit * unit);
}

/// Activations of `count` positions from inner position j; `out` [kBlock] is the g-net's output.
void RunBlock(Work& work, const float* theta, std::int64_t j, std::int64_t count, float* out) {
  const Full d;
  for (std::int64_t h = 0; h < work.layers[0].outputs; ++h) {
    const V a = hn::Set(d, work.a[h]);
    for (std::int64_t p = 0; p < count; p += N())
      hn::Store(hn::Max(hn::Add(a, hn::Load(d, work.b + h * work.stride + j + p)), hn::Zero(d)), d,
                work.x[0] + h * kBlock + p);
  }
  for (std::size_t l = 1; l < work.layers.size(); ++l) {
    const auto& layer = work.layers[l];
    const bool last = l + 1 == work.layers.size();
    Layer(theta + layer.weight, theta + layer.bias, layer.inputs, layer.outputs, work.x[l - 1],
          count, !last, last ? out : work.x[l]);
  }
}

/// Visits the positions of block [j, j + kBlock) of an outer row that exist:
/// visit(pointer, index in block).
template <typename Pointer, typename Visit>
HWY_INLINE void ForBlock(const FusedPiece& piece, Pointer row, std::int64_t j, Visit visit) {
  const std::int64_t count = std::min(piece.axes.inner - j, kBlock), kernel = piece.shape.kernel;
  if (piece.axes.inner_stride == kernel) {
    for (std::int64_t p = 0; p < count; ++p) visit(row + j + p, p);
  } else {
    for (std::int64_t p = 0; p < count; ++p)
      visit(row + (j + p) / kernel * piece.axes.inner_stride + (j + p) % kernel, p);
  }
}

void ForwardDeep(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  scratch.reserve(WorkFloats(piece.shape, piece.axes.inner) + kBlock + 64);
  Work work = MakeWork(piece, scratch);
  float* out = scratch.take(kBlock);
  for (std::int64_t i = piece.first; i < piece.last; ++i, data += piece.axes.outer_stride) {
    SetOuter(work, piece.codes, piece.theta, i);
    for (std::int64_t j = 0; j < piece.axes.inner; j += kBlock) {
      RunBlock(work, piece.theta, j, BlockCount(piece.axes.inner, j), out);
      ForBlock(piece, data, j, [&](float* at, std::int64_t p) { *at = out[p] * scale; });
    }
  }
}

/// What the first layer's inputs receive from the outer position i and its grad_a [hidden].
void OuterGradient(const FusedPiece& piece, const BankShape::Layer& layer, std::int64_t i,
                   const float* grad_a, float* grad) {
  const FusedCodes& codes = piece.codes;
  for (std::int64_t h = 0; h < layer.outputs; ++h) {
    const std::int64_t at = layer.weight + h * layer.inputs + codes.outer_input;
    grad[layer.bias + h] += grad_a[h];
    for (std::int64_t c = 0; c < codes.outer_width; ++c) {
      grad[at + c] += grad_a[h] * codes.outer_rows[i * codes.outer_width + c];
      if (codes.outer_latents >= 0)
        grad[codes.outer_latents + i * codes.outer_width + c] += grad_a[h] * piece.theta[at + c];
    }
  }
}

/// The same for all inner positions and kernel positions from grad_b [hidden, stride].
void InnerGradient(const FusedPiece& piece, const Work& work, const float* grad_b, float* grad) {
  const Full d;
  const FusedCodes& codes = piece.codes;
  const auto& layer = work.layers[0];
  for (std::int64_t h = 0; h < layer.outputs; ++h) {
    const std::int64_t row = layer.weight + h * layer.inputs;
    const float* delta = grad_b + h * work.stride;
    for (std::int64_t c = 0; c < codes.inner_width + codes.kernel_width; ++c) {
      const float* column = codes.inner_columns.data() + c * codes.stride;
      V sum = hn::Zero(d);
      for (std::int64_t j = 0; j < piece.axes.inner; j += N())
        sum = hn::MulAdd(hn::LoadU(d, column + j), hn::Load(d, delta + j), sum);
      grad[row + (c < codes.inner_width ? codes.inner_input + c
                                        : codes.kernel_input + c - codes.inner_width)] +=
          hn::GetLane(hn::SumOfLanes(d, sum));
    }
    if (codes.inner_latents < 0) continue;
    for (std::int64_t p = 0; p < piece.axes.inner; ++p)
      for (std::int64_t c = 0; c < codes.inner_width; ++c)
        grad[codes.inner_latents + p / piece.shape.kernel * codes.inner_width + c] +=
            delta[p] * piece.theta[row + codes.inner_input + c];
  }
}

void BackwardDeep(const FusedPiece& piece, const float* data, float scale, float* grad,
                  FusedScratch& scratch) {
  const Full d;
  const BankShape& shape = piece.shape;
  const float* theta = piece.theta;
  const std::int64_t inner = piece.axes.inner;
  const std::int64_t widest = *std::max_element(shape.hidden.begin(), shape.hidden.end());
  const std::int64_t hidden = shape.hidden[0];
  scratch.reserve(WorkFloats(shape, inner) + 2 * widest * kBlock + 2 * kBlock +
                  hidden * (Padded(inner) + 1) + 160);
  Work work = MakeWork(piece, scratch);
  float* out = scratch.take(kBlock);
  float* seed = scratch.take(kBlock);
  float* delta = scratch.take(widest * kBlock);
  float* next = scratch.take(widest * kBlock);
  float* grad_a = scratch.take(hidden);
  float* grad_b = scratch.take(hidden * work.stride);
  std::memset(grad_b, 0, sizeof(float) * static_cast<std::size_t>(hidden * work.stride));

  for (std::int64_t i = piece.first; i < piece.last; ++i, data += piece.axes.outer_stride) {
    SetOuter(work, piece.codes, theta, i);
    std::fill(grad_a, grad_a + hidden, 0.0f);
    for (std::int64_t j = 0; j < inner; j += kBlock) {
      const std::int64_t count = BlockCount(inner, j);
      RunBlock(work, theta, j, count, out);
      std::fill(seed, seed + kBlock, 0.0f);
      ForBlock(piece, data, j, [&](const float* at, std::int64_t p) { seed[p] = *at * scale; });
      const float* above = seed;
      for (std::size_t l = work.layers.size() - 1; l > 0; --l) {
        const auto& layer = work.layers[l];
        LayerGradient(above, work.x[l - 1], layer.inputs, layer.outputs, count, grad + layer.weight,
                      grad + layer.bias);
        float* below = above == delta ? next : delta;
        LayerBack(theta + layer.weight, above, layer.inputs, layer.outputs, work.x[l - 1], count,
                  below);
        above = below;
      }
      for (std::int64_t h = 0; h < hidden; ++h) {
        V sum = hn::Zero(d);
        float* row = grad_b + h * work.stride + j;
        for (std::int64_t p = 0; p < count; p += N()) {
          const V value = hn::Load(d, above + h * kBlock + p);
          sum = hn::Add(sum, value);
          hn::Store(hn::Add(hn::Load(d, row + p), value), d, row + p);
        }
        grad_a[h] += hn::GetLane(hn::SumOfLanes(d, sum));
      }
    }
    OuterGradient(piece, work.layers[0], i, grad_a, grad);
  }
  InnerGradient(piece, work, grad_b, grad);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(ForwardDeep);
HWY_EXPORT(BackwardDeep);

void fused_forward_deep(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardDeep)(piece, data, scale, scratch);
}

void fused_backward_deep(const FusedPiece& piece, const float* data, float scale, float* grad,
                         FusedScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardDeep)(piece, data, scale, grad, scratch);
}

}  // namespace gbcompress
#endif  // HWY_ONCE
