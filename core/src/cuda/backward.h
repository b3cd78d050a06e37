#pragma once
/// One hidden layer, backward. Only the signs of a + b matter, and they are computed again:
///     S[i,h] = sum_j g * (a > -b),   T[j,h] = sum_i g * (a > -b),
/// and dW2 = sum a*S + sum b*T, da = w2 * S, db = w2 * T: three instructions a weight and hidden
/// unit. Threads with the same hidden units and 8 inner positions are a worker; a thread keeps -b
/// and T of its positions in registers while the outer positions pass by, 8 at a time. The workers'
/// parts of S meet in shared memory and are added in a fixed order.

#include "cuda/tables.h"

namespace gbcompress::cuda {

inline constexpr int kBackwardThreads = 512;  ///< at most
inline constexpr int kBackwardSide = 128;     ///< largest piece, both ways
inline constexpr int kOwned = 8;              ///< inner positions of a worker
inline constexpr int kRowGroup = 8;           ///< outer positions between two barriers
inline constexpr int kBackwardUnits = 32;     ///< largest number of hidden units of a block
static_assert(kRowGroup == kCodeChunk && kOwned == 8,
              "parts of S and parts of code sums share their memory");

/// Floats of shared memory of a block of `workers` workers with `units` hidden units each.
inline std::int64_t backward_floats(int workers, int units, int max_outer) {
  return static_cast<std::int64_t>((max_outer + kRowGroup - 1) / kRowGroup * kRowGroup) * units +
         kRowGroup * workers * kOwned + workers * kRowGroup * units + kBackwardUnits;
}

struct BackwardState {
  Four negated[2];  ///< -b of the owned positions
  float t[kOwned];
  float w2;             ///< this thread's part of dW2
  float total;          ///< sum of the gradients that it fetched
  const float* source;  ///< what it fetches next; null where the piece has no such inner position
};

/// What all threads of a block know.
struct BackwardBlock {
  int workers, units, first_unit;
  float* a;      ///< [outer, units]; rows that are done hold S
  float* g;      ///< [kRowGroup, workers * kOwned]
  float* part;   ///< [workers, kRowGroup, units]
  float* total;  ///< [units]
  const float* theta;
};

GBC_DEVICE void make_negated(const Arguments& args, const BackwardBlock& block, const Piece& piece,
                             int thread, Four (&negated)[2]) {
  const int unit = block.first_unit + thread % block.units;
  const int first = thread / block.units * kOwned;
  if (first >= piece.inner) return;
  for_inner_axes(args, piece, [&](const auto& axis) {
    for (int chunk = 0; chunk < chunks_of(axis.codes); ++chunk) {
      const ChunkWeights weights = chunk_weights(args, block.theta, axis.codes, chunk, unit, -1.0f);
      negated[0] = axis.products(weights, chunk, first, negated[0]);
      negated[1] = axis.products(weights, chunk, first + 4, negated[1]);
    }
  });
}

/// Fetches the gradients of outer positions [row, row + kRowGroup), zero beyond the piece. A thread
/// always fetches the same inner position.
GBC_DEVICE void fetch(const BackwardBlock& block, const Piece& piece, int row, int thread,
                      BackwardState& state) {
  const int cols = block.workers * kOwned, step = block.units / kOwned;
  for (int r = thread / cols; r < kRowGroup; r += step) {
    const bool exists = state.source && row + r < piece.outer;
    const float value = exists ? state.source[r * piece.outer_stride] * piece.scale : 0.0f;
    block.g[r * cols + thread % cols] = value;
    state.total += value;
  }
  if (state.source) state.source += kRowGroup * piece.outer_stride;
}

/// A worker's part of S for kRowGroup outer positions, and what they add to T.
GBC_DEVICE void add_rows(const BackwardBlock& block, int row, int thread, BackwardState& state) {
  const int worker = thread / block.units, unit = thread % block.units;
  const int cols = block.workers * kOwned;
  const float* a = block.a + row * block.units + unit;
  const float* g = block.g + worker * kOwned;
  float* part = block.part + worker * kRowGroup * block.units + unit;
  GBC_UNROLL
  for (int r = 0; r < kRowGroup; ++r) {
    const float x = a[r * block.units];
    const Four low = load_four(g + r * cols), high = load_four(g + r * cols + 4);
    float sum[2] = {0, 0};
    GBC_UNROLL
    for (int c = 0; c < kOwned; ++c) {
      const float value = c < 4 ? low.v[c] : high.v[c - 4];
      const float mask = greater(x, state.negated[c / 4].v[c % 4]);
      sum[c / 4] += mask * value;
      state.t[c] += mask * value;
    }
    part[r * block.units] = sum[0] + sum[1];
  }
}

/// The sum of one number over all workers.
GBC_DEVICE float over_workers(const BackwardBlock& block, int slot, int unit) {
  float sum = 0;
  for (int worker = 0; worker < block.workers; ++worker)
    sum += block.part[(worker * kRowGroup + slot) * block.units + unit];
  return sum;
}

/// Adds up S of a group of outer positions, which replaces their a.
GBC_DEVICE void finish_rows(const BackwardBlock& block, int row, int thread, int threads,
                            BackwardState& state) {
  for (int at = thread; at < kRowGroup * block.units; at += threads) {
    const float s = over_workers(block, at / block.units, at % block.units);
    float* a = block.a + row * block.units + at;
    state.w2 += *a * s;
    *a = s;
  }
}

/// Gradient of the first layer's weights for one axis: w2 * sum over positions of value * code.
/// @param values  values(thread, visit) calls visit(position, value) for what the thread has
template <typename Group, typename Values>
GBC_DEVICE void add_codes(const Group& group, const Arguments& args, const BackwardBlock& block,
                          const Destination& out, const Table& codes, const Values& values) {
  const Layer& layer = args.layers[0];
  for (int chunk = 0; chunk < chunks_of(codes); ++chunk) {
    group.each([&](int thread) {
      float sum[kCodeChunk] = {};
      values(thread, [&](int position, float value) {
        const float* code = code_chunk(codes, chunk, position);
        const Four low = load_four(code), high = load_four(code + 4);
        GBC_UNROLL
        for (int c = 0; c < kCodeChunk; ++c) sum[c] += value * (c < 4 ? low.v[c] : high.v[c - 4]);
      });
      float* part = block.part + thread / block.units * kRowGroup * block.units;
      GBC_UNROLL
      for (int c = 0; c < kCodeChunk; ++c) part[c * block.units + thread % block.units] = sum[c];
    });
    group.each([&](int thread) {
      for (int at = thread; at < kCodeChunk * block.units; at += group.size()) {
        const int code = chunk * kCodeChunk + at / block.units;
        const int unit = block.first_unit + at % block.units;
        if (code >= codes.width || unit >= layer.outputs) continue;
        const float w2 = block.theta[args.layers[1].weight + unit];
        out.put(layer.weight + static_cast<std::int64_t>(unit) * layer.inputs + codes.input + code,
                w2 * over_workers(block, at / block.units, at % block.units));
      }
    });
  }
}

/// Gradients of the output layer and of the first layer's biases.
template <typename Group>
GBC_DEVICE void finish_scalars(const Group& group, const Arguments& args,
                               const BackwardBlock& block, const Destination& out,
                               const Piece& piece,
                               typename Group::template Local<BackwardState>& state) {
  group.each([&](int thread) {
    const int worker = thread / block.units, unit = thread % block.units;
    float w2 = state[thread].w2, bias = 0;
    GBC_UNROLL
    for (int c = 0; c < kOwned; ++c)
      w2 -= state[thread].negated[c / 4].v[c % 4] * state[thread].t[c];
    for (int row = worker; row < piece.outer; row += block.workers)
      bias += block.a[row * block.units + unit];
    float* part = block.part + worker * kRowGroup * block.units + unit;
    part[0] = w2;
    part[block.units] = bias;
    part[2 * block.units] = state[thread].total;
  });
  group.each([&](int thread) {
    for (int at = thread; at < 3 * block.units; at += group.size()) {
      const int unit = block.first_unit + at % block.units;
      const float sum = over_workers(block, at / block.units, at % block.units);
      if (at >= 2 * block.units)
        block.total[at % block.units] = sum;
      else if (unit >= args.layers[0].outputs)
        continue;
      else if (at < block.units)
        out.put(args.layers[1].weight + unit, sum);
      else
        out.put(args.layers[0].bias + unit, block.theta[args.layers[1].weight + unit] * sum);
    }
  });
  group.each([&](int thread) {
    if (thread > 0 || block.first_unit > 0) return;
    float sum = 0;
    for (int unit = 0; unit < block.units; ++unit) sum += block.total[unit];
    out.put(args.layers[1].bias, sum);
  });
}

/// @param layer   which block of hidden units
/// @param shared  backward_floats() at 16-byte alignment
template <typename Group>
GBC_DEVICE void backward_piece(const Group& group, const Arguments& args, const Piece& piece,
                               int layer, float* shared) {
  BackwardBlock block;
  block.units = args.units;
  block.workers = group.size() / args.units;
  block.first_unit = layer * args.units;
  block.a = shared;
  block.g = block.a + rounded_up(args.max_outer, kRowGroup) * block.units;
  block.part = block.g + kRowGroup * block.workers * kOwned;
  block.total = block.part + block.workers * kRowGroup * block.units;
  block.theta = args.theta + piece.tile * args.parameters;
  typename Group::template Local<BackwardState> state(group);

  group.each([&](int thread) {
    outer_table({thread, group.size(), block.units}, args, block.theta, piece,
                rounded_up(piece.outer, kRowGroup), block.first_unit, block.units,
                PositionMajor{block.a, block.units});
    make_negated(args, block, piece, thread, state[thread].negated);
    const int col = thread % (block.workers * kOwned);
    state[thread].source = col < piece.inner ? address(args, piece, 0, col) : nullptr;
    fetch(block, piece, 0, thread, state[thread]);
  });
  for (int row = 0; row < piece.outer; row += kRowGroup) {
    group.each([&](int thread) { add_rows(block, row, thread, state[thread]); });
    group.each([&](int thread) {
      finish_rows(block, row, thread, group.size(), state[thread]);
      if (row + kRowGroup < piece.outer)
        fetch(block, piece, row + kRowGroup, thread, state[thread]);
    });
  }

  const Destination out = destination(args, piece);
  finish_scalars(group, args, block, out, piece, state);
  add_codes(group, args, block, out, outer_codes(args, piece), [&](int thread, const auto& visit) {
    for (int row = thread / block.units; row < piece.outer; row += block.workers)
      visit(piece.first_outer + row, block.a[row * block.units + thread % block.units]);
  });
  for_inner_axes(args, piece, [&](const auto& axis) {
    add_codes(group, args, block, out, axis.codes, [&](int thread, const auto& visit) {
      const int first = thread / block.units * kOwned;
      if (first >= piece.inner) return;
      GBC_UNROLL
      for (int c = 0; c < kOwned; ++c) visit(axis.index(first + c), state[thread].t[c]);
    });
  });
}

}  // namespace gbcompress::cuda
