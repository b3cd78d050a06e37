#pragma once
/// Two or more hidden layers, backward: activations again, then from the last layer down, where the
/// gradient with respect to a layer replaces its activations.

#include "cuda/deep.h"

namespace gbcompress::cuda {

/// The gradients at positions [first, first + kPositions), zero beyond the piece.
GBC_DEVICE void fetch_seed(const DeepBlock& block, int first, int thread, int threads) {
  float* seed = block.work + block.args.deep.seed;
  for (int p = thread; p < kPositions; p += threads) {
    const int at = first + p;
    seed[p] = at < block.positions() ? *address(block.args, block.piece, at / block.piece.inner,
                                                at % block.piece.inner) *
                                           block.piece.scale
                                     : 0.0f;
  }
}

/// One thread's share of a 4 x 4 of a layer's gradient: sum over its positions of delta * x, and of
/// delta for the biases.
GBC_DEVICE void share_of_gradient(const float* delta, const float* x, float* out) {
  float sums[kShareFloats] = {};
  GBC_UNROLL
  for (int p = 0; p < kPositions; p += 4 * kShares) {
    Four d[4], in[4];
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) {
      d[r] = load_four(delta + r * kDeepPitch + p);
      in[r] = load_four(x + r * kDeepPitch + p);
    }
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) {
      GBC_UNROLL
      for (int v = 0; v < 4; ++v) {
        GBC_UNROLL
        for (int c = 0; c < 4; ++c) sums[4 * r + c] += d[r].v[v] * in[c].v[v];
        sums[16 + r] += d[r].v[v];
      }
    }
  }
  GBC_UNROLL
  for (int n = 0; n < kShareFloats; n += 4)
    store_four(out + n, {{sums[n], sums[n + 1], sums[n + 2], sums[n + 3]}});
}

/// gradient of layer l += sum over the block's positions of delta * x.
/// @param delta  [outputs, kDeepPitch], with respect to the layer before its ReLU
template <typename Group>
GBC_DEVICE void layer_gradient(const Group& group, const DeepBlock& block, int l,
                               const float* delta) {
  const Layer& layer = block.layer(l);
  const int across = (layer.inputs + 3) / 4, tiles = (layer.outputs + 3) / 4 * across;
  float* partial = block.work + block.args.deep.partial;
  float* gradient = block.work + block.args.deep.gradient - block.layer(1).weight;
  const int round = group.size() / kShares;  // 4 x 4 tiles at once
  for (int begin = 0; begin < tiles; begin += round) {
    group.each([&](int thread) {
      const int tile = begin + thread / kShares, share = thread % kShares;
      if (tile < tiles)
        share_of_gradient(delta + tile / across * 4 * kDeepPitch + share * 4,
                          block.active(l - 1) + tile % across * 4 * kDeepPitch + share * 4,
                          partial + thread * kShareFloats);
    });
    group.each([&](int thread) {
      for (int n = thread; n < smaller(round, tiles - begin) * kShareFloats; n += group.size()) {
        const int tile = begin + n / kShareFloats, entry = n % kShareFloats;
        const int o = tile / across * 4 + (entry < 16 ? entry / 4 : entry - 16);
        const int h = tile % across * 4 + entry % 4;
        if (o >= layer.outputs || (entry < 16 ? h >= layer.inputs : tile % across > 0)) continue;
        float sum = 0;
        for (int share = 0; share < kShares; ++share)
          sum += partial[(n / kShareFloats * kShares + share) * kShareFloats + entry];
        gradient[entry < 16 ? layer.weight + o * layer.inputs + h : layer.bias + o] += sum;
      }
    });
  }
}

/// active(l - 1) = active(l - 1) > 0 ? sum over outputs of weight * delta : 0.
GBC_DEVICE void layer_back(const DeepBlock& block, int l, const float* delta, int thread,
                           int threads) {
  const Layer& layer = block.layer(l);
  const int outputs = rounded_up(layer.outputs, 4);
  constexpr int kAcross = kPositions / 4;
  for (int n = thread; n < (layer.inputs + 3) / 4 * kAcross; n += threads) {
    const int h = n / kAcross * 4, p = n % kAcross * 4;
    Four sums[4] = {};
    for (int o = 0; o < outputs; o += 4) {
      Four d[4];
      GBC_UNROLL
      for (int r = 0; r < 4; ++r) d[r] = load_four(delta + (o + r) * kDeepPitch + p);
      GBC_UNROLL
      for (int r = 0; r < 4; ++r) {
        const Four weights = load_four(block.weights(l) + (h + r) * outputs + o);
        GBC_UNROLL
        for (int v = 0; v < 4; ++v) {
          GBC_UNROLL
          for (int c = 0; c < 4; ++c) sums[r].v[c] += weights.v[v] * d[v].v[c];
        }
      }
    }
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) {
      float* x = block.active(l - 1) + (h + r) * kDeepPitch + p;
      Four value = load_four(x);
      GBC_UNROLL
      for (int c = 0; c < 4; ++c) value.v[c] = value.v[c] > 0 ? sums[r].v[c] : 0.0f;
      store_four(x, value);
    }
  }
}

/// What the first layer's tables receive from the block at `first`; each entry has one thread.
GBC_DEVICE void add_to_tables(const DeepBlock& block, int first, int thread, int threads) {
  const DeepWork& at = block.args.deep;
  const int inner = block.piece.inner, hidden = block.layer(0).outputs;
  const int end = smaller(first + kPositions, block.positions());
  const float* delta = block.active(0) - first;
  const int top = first / inner, rows = (end - 1) / inner - top + 1;
  for (int n = thread; n < hidden * rows; n += threads) {
    const int h = n / rows, i = top + n % rows;
    float sum = 0;
    for (int p = i * inner > first ? i * inner : first; p < smaller(end, (i + 1) * inner); ++p)
      sum += delta[h * kDeepPitch + p];
    block.work[at.outer_grad + h * kOuterPitch + i] += sum;
  }
  for (int n = thread; n < hidden * inner; n += threads) {
    const int h = n / inner, j = n % inner;
    float sum = 0;
    for (int p = first + (j - first % inner + inner) % inner; p < end; p += inner)
      sum += delta[h * kDeepPitch + p];
    block.work[at.inner_grad + h * kDeepPitch + j] += sum;
  }
}

/// Gradient of the first layer's weights for one axis, from `table` [hidden, pitch].
template <typename Axis>
GBC_DEVICE void table_gradient(const DeepBlock& block, const Destination& out, const Axis& axis,
                               const float* table, int pitch, int count, int thread, int threads) {
  const Layer& layer = block.layer(0);
  const Table& codes = axis.codes;
  for (int n = thread; n < layer.outputs * codes.width; n += threads) {
    const int h = n / codes.width, c = n % codes.width;
    float sum = 0;
    for (int at = 0; at < count; ++at)
      sum +=
          table[h * pitch + at] * code_chunk(codes, c / kCodeChunk, axis.index(at))[c % kCodeChunk];
    out.put(layer.weight + h * layer.inputs + codes.input + c, sum);
  }
}

GBC_DEVICE void put_gradients(const DeepBlock& block, int thread, int threads) {
  const Arguments& args = block.args;
  const Piece& piece = block.piece;
  const Destination out = destination(args, piece);
  const float* outer = block.work + args.deep.outer_grad;
  const float* inner = block.work + args.deep.inner_grad;
  table_gradient(block, out, outer_axis(args, piece), outer, kOuterPitch, piece.outer, thread,
                 threads);
  for_inner_axes(args, piece, [&](const auto& axis) {
    table_gradient(block, out, axis, inner, kDeepPitch, piece.inner, thread, threads);
  });
  const Layer& layer = block.layer(0);
  for (int h = thread; h < layer.outputs; h += threads) {
    float sum = 0;
    for (int i = 0; i < piece.outer; ++i) sum += outer[h * kOuterPitch + i];
    out.put(layer.bias + h, sum);
  }
  const std::int64_t rest = block.layer(1).weight;
  for (std::int64_t n = rest + thread; n < args.parameters; n += threads)
    out.put(n, block.work[args.deep.gradient + n - rest]);
}

/// @param work  args.deep.floats at 16-byte alignment
template <typename Group>
GBC_DEVICE void backward_deep_piece(const Group& group, const Arguments& args, const Piece& piece,
                                    float* work) {
  const DeepBlock block{args, piece, args.theta + piece.tile * args.parameters, work};
  const DeepWork& at = args.deep;
  deep_tables(group, block);
  group.each([&](int thread) {  // the gradients lie one after another
    for (std::int64_t n = at.outer_grad + thread; n < at.partial; n += group.size()) work[n] = 0;
  });
  for (int first = 0; first < block.positions(); first += kPositions) {
    hidden_layers(group, block, first);
    group.each([&](int thread) { fetch_seed(block, first, thread, group.size()); });
    const float* delta = work + at.seed;
    for (int l = block.last(); l > 0; --l) {
      layer_gradient(group, block, l, delta);
      group.each([&](int thread) { layer_back(block, l, delta, thread, group.size()); });
      delta = block.active(l - 1);
    }
    group.each([&](int thread) { add_to_tables(block, first, thread, group.size()); });
  }
  group.each([&](int thread) { put_gradients(block, thread, group.size()); });
}

}  // namespace gbcompress::cuda
