#pragma once
/// One hidden layer, forward. As in the CPU's kernel (docs/adr/0002), with a and b the halves of
/// the first layer, relu(a + b) = max(a, -b) + b, so that
///     w = base + sum_h w2[h] * max(a[h], -b[h]),   base = b2 + sum_h w2[h] * b[h]:
/// two instructions a weight and hidden unit. A thread keeps rectangles of 8 x 4 weights in
/// registers while the hidden units pass by in blocks that fit shared memory.

#include "cuda/tables.h"

namespace gbcompress::cuda {

inline constexpr int kForwardThreads = 256;  ///< at most
inline constexpr int kForwardSide = 128;     ///< largest piece, both ways
inline constexpr int kForwardPitch = kForwardSide + 4;
inline constexpr int kForwardUnits = 32;  ///< hidden units whose tables are in shared memory
inline constexpr int kBlockRows = 8, kBlockCols = 4, kBlocks = 2;  ///< of one thread
static_assert(kForwardThreads * kBlocks * kBlockRows * kBlockCols >= kForwardSide * kForwardSide);
inline constexpr int kForwardFloats = (2 * kForwardUnits + 1) * kForwardPitch + kForwardUnits;

struct ForwardBlock {
  float v[kBlockRows][kBlockCols];
};
struct ForwardSums {
  ForwardBlock block[kBlocks];
};

/// sums += sum over units of w2 * max(a, negated b).
/// @param a, negated  [units, kForwardPitch], at the rectangle's corner
/// @param units       a multiple of 4
GBC_DEVICE void add_units(const float* a, const float* negated, const float* w2, int units,
                          ForwardBlock& sums) {
  for (int h = 0; h < units; h += 4) {
    const Four weights = load_four(w2 + h);
    GBC_UNROLL
    for (int step = 0; step < 4; ++step) {
      const Four low = load_four(a + (h + step) * kForwardPitch);
      const Four high = load_four(a + (h + step) * kForwardPitch + 4);
      const Four b = load_four(negated + (h + step) * kForwardPitch);
      GBC_UNROLL
      for (int r = 0; r < kBlockRows; ++r) {
        const float x = r < 4 ? low.v[r] : high.v[r - 4];
        GBC_UNROLL
        for (int c = 0; c < kBlockCols; ++c) sums.v[r][c] += weights.v[step] * fmaxf(x, b.v[c]);
      }
    }
  }
}

/// Writes a rectangle, as far as the piece has it.
GBC_DEVICE void write_block(const Arguments& args, const Piece& piece, int row, int col,
                            const float* base, const ForwardBlock& sums) {
  const int cols = smaller(kBlockCols, piece.inner - col);
  const bool side_by_side = piece.inner_stride == args.kernel_positions;
  GBC_UNROLL
  for (int r = 0; r < kBlockRows; ++r) {
    if (row + r >= piece.outer) break;
    Four values;
    GBC_UNROLL
    for (int c = 0; c < kBlockCols; ++c) values.v[c] = (sums.v[r][c] + base[col + c]) * piece.scale;
    float* at = address(args, piece, row + r, col);
    if (side_by_side && cols == 4 && reinterpret_cast<std::uintptr_t>(at) % alignof(Four) == 0) {
      store_four(at, values);
      continue;
    }
    GBC_UNROLL
    for (int c = 0; c < kBlockCols; ++c)
      if (c < cols) *address(args, piece, row + r, col + c) = values.v[c];
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
      const Share share{thread, group.size(), kForwardUnits};
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
      GBC_UNROLL
      for (int n = 0; n < kBlocks; ++n) {
        const int block = thread + n * group.size();
        if (block < blocks)
          add_units(a + block / across * kBlockRows, negated + block % across * kBlockCols, w2,
                    units, sums[thread].block[n]);
      }
    });
  }
  group.each([&](int thread) {
    GBC_UNROLL
    for (int n = 0; n < kBlocks; ++n) {
      const int block = thread + n * group.size();
      if (block < blocks)
        write_block(args, piece, block / across * kBlockRows, block % across * kBlockCols, base,
                    sums[thread].block[n]);
    }
  });
}

}  // namespace gbcompress::cuda
