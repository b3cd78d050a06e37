#pragma once
/// One hidden layer, forward. As in the CPU's kernel (ADR 0002), with a and b the halves of
/// the first layer, relu(a + b) = max(a, -b) + b, so that
///     w = base + sum_h w2[h] * max(a[h], -b[h]),   base = b2 + sum_h w2[h] * b[h]:
/// two instructions a weight and hidden unit. A thread keeps 10 x 4 weights in registers
/// while the hidden units pass by in blocks that fit shared memory.

#include "cuda/tables.h"

namespace gbcompress::cuda {

inline constexpr int kForwardThreads = 256;                     ///< at most
inline constexpr int kBlockRows = 10, kBlockCols = 4;           ///< of one thread
inline constexpr int kForwardInner = 128, kForwardOuter = 130;  ///< largest piece
inline constexpr int kForwardPitch = 132;
inline constexpr int kForwardUnits = 32;  ///< hidden units whose tables are in shared memory
inline constexpr int kForwardFloats = (2 * kForwardUnits + 1) * kForwardPitch + kForwardUnits;

/// Outer positions that a piece of `inner` inner ones may have: a thread each for its rectangles.
inline std::int64_t forward_outer(std::int64_t inner) {
  const std::int64_t across = (inner + kBlockCols - 1) / kBlockCols;
  const std::int64_t rows = kForwardThreads / across * kBlockRows;
  return rows < kForwardOuter ? rows : kForwardOuter;
}

struct ForwardSums {
  float v[kBlockRows][kBlockCols];
};

/// sums += sum over units of w2 * max(a, negated b).
/// @param a, negated  [units, kForwardPitch], at the rectangle's corner
/// @param units       a multiple of 4
GBC_DEVICE void add_units(const float* a, const float* negated, const float* w2, int units,
                          ForwardSums& sums) {
  for (int h = 0; h < units; h += 4) {
    const Four weights = load_four(w2 + h);
    GBC_UNROLL
    for (int step = 0; step < 4; ++step) {
      const Four b = load_four(negated + (h + step) * kForwardPitch);
      GBC_UNROLL
      for (int r = 0; r < kBlockRows; r += 2) {
        const Two x = load_two(a + (h + step) * kForwardPitch + r);
        GBC_UNROLL
        for (int c = 0; c < 2 * kBlockCols; ++c)
          sums.v[r + c / kBlockCols][c % kBlockCols] +=
              weights.v[step] * fmaxf(x.v[c / kBlockCols], b.v[c % kBlockCols]);
      }
    }
  }
}

/// Writes a rectangle, as far as the piece has it.
GBC_DEVICE void write_block(const Arguments& args, const Piece& piece, int row, int col,
                            const float* base, const ForwardSums& sums) {
  const int rows = smaller(kBlockRows, piece.outer - row);
  const int cols = smaller(kBlockCols, piece.inner - col);
  Four start = load_four(base + col);
  GBC_UNROLL
  for (int c = 0; c < kBlockCols; ++c) start.v[c] *= piece.scale;
  float* at[kBlockCols];
  GBC_UNROLL
  for (int c = 0; c < kBlockCols; ++c)
    at[c] = address(args, piece, row, col + smaller(c, cols - 1));
  const bool side_by_side =
      cols == kBlockCols && piece.inner_stride == args.kernel_positions &&
      (reinterpret_cast<std::uintptr_t>(at[0]) | (piece.outer_stride * sizeof(float))) %
              alignof(Four) ==
          0;
  GBC_UNROLL
  for (int r = 0; r < kBlockRows; ++r) {
    if (r >= rows) break;
    Four values;
    GBC_UNROLL
    for (int c = 0; c < kBlockCols; ++c) values.v[c] = sums.v[r][c] * piece.scale + start.v[c];
    const std::int64_t down = r * piece.outer_stride;
    if (side_by_side) {
      store_four(at[0] + down, values);
    } else {
      GBC_UNROLL
      for (int c = 0; c < kBlockCols; ++c)
        if (c < cols) at[c][down] = values.v[c];
    }
  }
}

/// @param shared  kForwardFloats at 16-byte alignment
template <typename Group>
GBC_DEVICE void forward_piece(const Group& group, const Arguments& args, const Piece& piece,
                              float* shared) {
  float* a = shared;
  float* negated = a + kForwardUnits * kForwardPitch;
  float* base = negated + kForwardUnits * kForwardPitch;
  float* w2 = base + kForwardPitch;
  const float* theta = args.theta + piece.tile * args.parameters;
  const int hidden = args.layers[0].outputs;
  const int across = (piece.inner + kBlockCols - 1) / kBlockCols;
  const int blocks = (piece.outer + kBlockRows - 1) / kBlockRows * across;
  const int rows = rounded_up(piece.outer, kBlockRows), cols = across * kBlockCols;
  typename Group::template Local<ForwardSums> sums(group);

  for (int first = 0; first < hidden; first += kForwardUnits) {
    const int units = smaller(kForwardUnits, rounded_up(hidden - first, 4));
    group.each([&](int thread) {
      const Share share = share_of(thread, group.size(), units);
      outer_table(share, args, theta, piece, rows, first, units, UnitMajor{a, kForwardPitch});
      inner_table(share, args, theta, piece, cols, first, units, -1.0f,
                  UnitMajor{negated, kForwardPitch});
      if (thread < units)
        w2[thread] = first + thread < hidden ? theta[args.layers[1].weight + first + thread] : 0.0f;
    });
    group.each([&](int thread) {
      for (int col = thread; col < cols; col += group.size()) {
        float sum = first == 0 ? theta[args.layers[1].bias] : base[col];
        for (int h = 0; h < units; ++h) sum -= w2[h] * negated[h * kForwardPitch + col];
        base[col] = sum;
      }
      if (thread < blocks)
        add_units(a + thread / across * kBlockRows, negated + thread % across * kBlockCols, w2,
                  units, sums[thread]);
    });
  }
  group.each([&](int thread) {
    if (thread < blocks)
      write_block(args, piece, thread / across * kBlockRows, thread % across * kBlockCols, base,
                  sums[thread]);
  });
}

}  // namespace gbcompress::cuda
