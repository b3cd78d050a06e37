// Two or more hidden layers, e.g. 20-30-10-1 over a whole layer. A block of inner positions of one
// outer row goes through all layers before the next: activations of one block are all that is ever
// stored. Lanes run over positions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gnet/fused_deep.cpp"
#include <hwy/foreach_target.h>
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
using V = hn::Vec<Full>;
constexpr std::int64_t kBlock = 256;  // positions; a multiple of every vector length
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kTile = 4;
#else
constexpr int kTile = 2;
#endif

inline std::int64_t Padded(std::int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }
inline std::int64_t N() { return static_cast<std::int64_t>(hn::Lanes(Full())); }

/// out[o, p] = bias[o] + sum_h weight[o, h] * x[h, p], p < kBlock; relu where asked.
template <int kRows>
void LayerRows(const float* weight, const float* bias, std::int64_t inputs, const float* x,
               bool relu, float* out) {
  const Full d;
  const std::int64_t n = N();
  for (std::int64_t p = 0; p < kBlock; p += 4 * n) {
    const int vectors = static_cast<int>(std::min<std::int64_t>(4, (kBlock - p) / n));
    V sum[kRows][4];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < 4; ++v) sum[r][v] = hn::Set(d, bias[r]);
    for (std::int64_t h = 0; h < inputs; ++h) {
      V value[4];
      for (int v = 0; v < 4; ++v) value[v] = hn::Load(d, x + h * kBlock + p + (v % vectors) * n);
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weight[r * inputs + h]);
        for (int v = 0; v < 4; ++v) sum[r][v] = hn::MulAdd(w, value[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < vectors; ++v)
        hn::Store(relu ? hn::Max(sum[r][v], hn::Zero(d)) : sum[r][v], d,
                  out + r * kBlock + p + v * n);
  }
}

void Layer(const float* weight, const float* bias, std::int64_t inputs, std::int64_t outputs,
           const float* x, bool relu, float* out) {
  std::int64_t o = 0;
  for (; o + kTile <= outputs; o += kTile)
    LayerRows<kTile>(weight + o * inputs, bias + o, inputs, x, relu, out + o * kBlock);
  for (; o < outputs; ++o)
    LayerRows<1>(weight + o * inputs, bias + o, inputs, x, relu, out + o * kBlock);
}

/// grad_weight[o, h] += sum_p delta[o, p] * x[h, p] and grad_bias[o] += sum_p delta[o, p].
void LayerGradient(const float* delta, const float* x, std::int64_t inputs, std::int64_t outputs,
                   float* grad_weight, float* grad_bias) {
  const Full d;
  const std::int64_t n = N();
  for (std::int64_t o = 0; o < outputs; ++o) {
    const float* row = delta + o * kBlock;
    V bias = hn::Zero(d);
    for (std::int64_t p = 0; p < kBlock; p += n) bias = hn::Add(bias, hn::Load(d, row + p));
    grad_bias[o] += hn::GetLane(hn::SumOfLanes(d, bias));
    std::int64_t h = 0;
    for (; h + 4 <= inputs; h += 4) {
      V sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (std::int64_t p = 0; p < kBlock; p += n) {
        const V value = hn::Load(d, row + p);
        for (int k = 0; k < 4; ++k)
          sum[k] = hn::MulAdd(value, hn::Load(d, x + (h + k) * kBlock + p), sum[k]);
      }
      for (int k = 0; k < 4; ++k)
        grad_weight[o * inputs + h + k] += hn::GetLane(hn::SumOfLanes(d, sum[k]));
    }
    for (; h < inputs; ++h) {
      V sum = hn::Zero(d);
      for (std::int64_t p = 0; p < kBlock; p += n)
        sum = hn::MulAdd(hn::Load(d, row + p), hn::Load(d, x + h * kBlock + p), sum);
      grad_weight[o * inputs + h] += hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

/// out[h, p] = x[h, p] > 0 ? sum_o weight[o, h] * delta[o, p] : 0.
void LayerBack(const float* weight, const float* delta, std::int64_t inputs, std::int64_t outputs,
               const float* x, float* out) {
  const Full d;
  const std::int64_t n = N();
  for (std::int64_t h = 0; h < inputs; h += kTile) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kTile, inputs - h));
    for (std::int64_t p = 0; p < kBlock; p += n) {
      V sum[kTile];
      for (int r = 0; r < kTile; ++r) sum[r] = hn::Zero(d);
      for (std::int64_t o = 0; o < outputs; ++o) {
        const V value = hn::Load(d, delta + o * kBlock + p);
        for (int r = 0; r < kTile; ++r)
          sum[r] =
              hn::MulAdd(hn::Set(d, weight[o * inputs + h + (r < rows ? r : 0)]), value, sum[r]);
      }
      for (int r = 0; r < rows; ++r) {
        const std::int64_t at = (h + r) * kBlock + p;
        hn::Store(hn::IfThenElseZero(hn::Gt(hn::Load(d, x + at), hn::Zero(d)), sum[r]), d,
                  out + at);
      }
    }
  }
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

/// Activations of the block at inner position j; `out` [kBlock] is the g-net's output.
void RunBlock(Work& work, const float* theta, std::int64_t j, float* out) {
  const Full d;
  for (std::int64_t h = 0; h < work.layers[0].outputs; ++h) {
    const V a = hn::Set(d, work.a[h]);
    for (std::int64_t p = 0; p < kBlock; p += N())
      hn::Store(hn::Max(hn::Add(a, hn::Load(d, work.b + h * work.stride + j + p)), hn::Zero(d)), d,
                work.x[0] + h * kBlock + p);
  }
  for (std::size_t l = 1; l < work.layers.size(); ++l) {
    const auto& layer = work.layers[l];
    const bool last = l + 1 == work.layers.size();
    Layer(theta + layer.weight, theta + layer.bias, layer.inputs, layer.outputs, work.x[l - 1],
          !last, last ? out : work.x[l]);
  }
}

/// Visits the positions of block [j, j + kBlock) of an outer row that exist:
/// visit(pointer, index in block).
template <typename Pointer, typename Visit>
void ForBlock(const FusedPiece& piece, Pointer row, std::int64_t j, Visit visit) {
  const std::int64_t end = std::min(piece.axes.inner, j + kBlock), kernel = piece.shape.kernel;
  for (std::int64_t p = j; p < end; ++p)
    visit(row + p / kernel * piece.axes.inner_stride + p % kernel, p - j);
}

void ForwardDeep(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  scratch.reserve(WorkFloats(piece.shape, piece.axes.inner) + kBlock + 64);
  Work work = MakeWork(piece, scratch);
  float* out = scratch.take(kBlock);
  for (std::int64_t i = piece.first; i < piece.last; ++i, data += piece.axes.outer_stride) {
    SetOuter(work, piece.codes, piece.theta, i);
    for (std::int64_t j = 0; j < piece.axes.inner; j += kBlock) {
      RunBlock(work, piece.theta, j, out);
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
      RunBlock(work, theta, j, out);
      std::fill(seed, seed + kBlock, 0.0f);
      ForBlock(piece, data, j, [&](const float* at, std::int64_t p) { seed[p] = *at * scale; });
      const float* above = seed;
      for (std::size_t l = work.layers.size() - 1; l > 0; --l) {
        const auto& layer = work.layers[l];
        LayerGradient(above, work.x[l - 1], layer.inputs, layer.outputs, grad + layer.weight,
                      grad + layer.bias);
        float* below = above == delta ? next : delta;
        LayerBack(theta + layer.weight, above, layer.inputs, layer.outputs, work.x[l - 1], below);
        above = below;
      }
      for (std::int64_t h = 0; h < hidden; ++h) {
        V sum = hn::Zero(d);
        float* row = grad_b + h * work.stride + j;
        for (std::int64_t p = 0; p < kBlock; p += N()) {
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
