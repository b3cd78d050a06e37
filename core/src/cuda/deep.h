#pragma once
/// Two or more hidden layers, e.g. 20-30-10-1 over a whole layer. A block of positions of the piece
/// goes through all layers before the next: the activations of one block are all that is stored, in
/// shared memory, or for very wide layers in a workspace. A thread makes 4 x 4 of a layer's
/// outputs.
///
/// Rows are padded to multiples of 4 everywhere and what pads them is zero, so that loops need no
/// ends of their own.

#include "cuda/tables.h"

namespace gbcompress::cuda {

inline constexpr int kDeepThreads = 128;
inline constexpr int kDeepOuter = 8, kDeepInner = 128;  ///< largest piece
inline constexpr int kPositions = 128;                  ///< of one block
inline constexpr int kDeepPitch = kPositions + 4;
inline constexpr int kOuterPitch = kDeepOuter + 4;
inline constexpr int kShares = 8;        ///< threads that share one 4 x 4 of gradients
inline constexpr int kShareFloats = 20;  ///< 4 x 4 and 4 biases
static_assert(kDeepThreads % kShares == 0 && kDeepInner <= kPositions);

/// Fills in where things lie. On the host, before the launch.
inline DeepWork deep_work(const Arguments& args, bool backward) {
  DeepWork work;
  const auto take = [&](std::int64_t floats) {
    const std::int64_t at = work.floats;
    work.floats += (floats + 3) / 4 * 4;
    return at;
  };
  const auto padded = [](std::int64_t n) { return (n + 3) / 4 * 4; };
  const std::int64_t hidden = padded(args.layers[0].outputs);
  work.outer = take(hidden * kOuterPitch);
  work.inner = take(hidden * kDeepPitch);
  for (int l = 1; l < args.layer_count; ++l) {
    work.weights[l] = take(padded(args.layers[l].inputs) * padded(args.layers[l].outputs));
    work.active[l - 1] = take(padded(args.layers[l].inputs) * kDeepPitch);
  }
  if (!backward) return work;
  work.outer_grad = take(hidden * kOuterPitch);
  work.inner_grad = take(hidden * kDeepPitch);
  work.seed = take(4 * kDeepPitch);
  work.gradient = take(args.parameters - args.layers[1].weight);
  work.partial = take(kDeepThreads * kShareFloats);
  return work;
}

/// What all threads of a block know.
struct DeepBlock {
  const Arguments& args;
  const Piece& piece;
  const float* theta;
  float* work;
  GBC_DEVICE int last() const { return args.layer_count - 1; }
  GBC_DEVICE const Layer& layer(int l) const { return args.layers[l]; }
  GBC_DEVICE float* weights(int l) const { return work + args.deep.weights[l]; }
  GBC_DEVICE float* active(int l) const { return work + args.deep.active[l]; }
  GBC_DEVICE int positions() const { return piece.outer * piece.inner; }
};

/// Tables of the first layer, and the other layers' weights as [inputs, outputs].
template <typename Group>
GBC_DEVICE void deep_tables(const Group& group, const DeepBlock& block) {
  const DeepWork& at = block.args.deep;
  const int hidden = rounded_up(block.layer(0).outputs, 4);
  group.each([&](int thread) {
    const Share share = share_of(thread, group.size(), hidden);
    outer_table(share, block.args, block.theta, block.piece, rounded_up(block.piece.outer, 4), 0,
                hidden, UnitMajor{block.work + at.outer, kOuterPitch});
    inner_table(share, block.args, block.theta, block.piece, rounded_up(block.piece.inner, 4), 0,
                hidden, 1.0f, UnitMajor{block.work + at.inner, kDeepPitch});
    for (int l = 1; l <= block.last(); ++l) {
      const Layer& layer = block.layer(l);
      const int outputs = rounded_up(layer.outputs, 4);
      const int count = rounded_up(layer.inputs, 4) * outputs;
      for (int n = thread; n < count; n += group.size()) {
        const int h = n / outputs, o = n % outputs;
        block.weights(l)[n] = h < layer.inputs && o < layer.outputs
                                  ? block.theta[layer.weight + o * layer.inputs + h]
                                  : 0.0f;
      }
    }
  });
}

/// Activations of the first hidden layer at positions [first, first + kPositions).
GBC_DEVICE void first_layer(const DeepBlock& block, int first, int thread, int threads) {
  const DeepWork& at = block.args.deep;
  const int padded = rounded_up(block.layer(0).outputs, 4);
  for (int p = thread; p < kPositions; p += threads) {
    const bool exists = first + p < block.positions();
    const int i = exists ? (first + p) / block.piece.inner : 0;
    const int j = exists ? (first + p) % block.piece.inner : 0;
    float* out = block.active(0) + p;
    for (int h = 0; h < padded; ++h) {
      const float a = block.work[at.outer + h * kOuterPitch + i];
      const float b = block.work[at.inner + h * kDeepPitch + j];
      out[h * kDeepPitch] = exists ? fmaxf(a + b, 0.0f) : 0.0f;
    }
  }
}

/// Activations after hidden layer l from those after l - 1.
GBC_DEVICE void dense_layer(const DeepBlock& block, int l, int thread, int threads) {
  const Layer& layer = block.layer(l);
  const int outputs = rounded_up(layer.outputs, 4);
  constexpr int kAcross = kPositions / 4;
  for (int n = thread; n < outputs / 4 * kAcross; n += threads) {
    const int o = n / kAcross * 4, p = n % kAcross * 4;
    Four sums[4];
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) {
      const float bias = o + r < layer.outputs ? block.theta[layer.bias + o + r] : 0.0f;
      sums[r] = {{bias, bias, bias, bias}};
    }
    for (int h = 0; h < layer.inputs; ++h) {
      const Four weights = load_four(block.weights(l) + h * outputs + o);
      const Four x = load_four(block.active(l - 1) + h * kDeepPitch + p);
      GBC_UNROLL
      for (int r = 0; r < 4; ++r) {
        GBC_UNROLL
        for (int c = 0; c < 4; ++c) sums[r].v[c] += weights.v[r] * x.v[c];
      }
    }
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) {
      GBC_UNROLL
      for (int c = 0; c < 4; ++c) sums[r].v[c] = fmaxf(sums[r].v[c], 0.0f);
      store_four(block.active(l) + (o + r) * kDeepPitch + p, sums[r]);
    }
  }
}

/// All activations of the positions from `first` on.
template <typename Group>
GBC_DEVICE void hidden_layers(const Group& group, const DeepBlock& block, int first) {
  group.each([&](int thread) { first_layer(block, first, thread, group.size()); });
  for (int l = 1; l < block.last(); ++l)
    group.each([&](int thread) { dense_layer(block, l, thread, group.size()); });
}

/// @param work  args.deep.floats at 16-byte alignment
template <typename Group>
GBC_DEVICE void forward_deep_piece(const Group& group, const Arguments& args, const Piece& piece,
                                   float* work) {
  const DeepBlock block{args, piece, args.theta + piece.tile * args.parameters, work};
  const Layer& output = block.layer(block.last());
  deep_tables(group, block);
  for (int first = 0; first < block.positions(); first += kPositions) {
    hidden_layers(group, block, first);
    group.each([&](int thread) {
      for (int p = thread; p < kPositions && first + p < block.positions(); p += group.size()) {
        float sum = block.theta[output.bias];
        const float* x = block.active(block.last() - 1) + p;
        for (int h = 0; h < output.inputs; ++h)
          sum += block.theta[output.weight + h] * x[h * kDeepPitch];
        *address(args, piece, (first + p) / piece.inner, (first + p) % piece.inner) =
            sum * piece.scale;
      }
    });
  }
}

}  // namespace gbcompress::cuda
