#pragma once
/// The first layer, split by axis: a(outer position, unit) with the bias inside, and b(inner
/// position, unit), which for kernels is the sum of the axis' and the kernel position's part.

#include "cuda/arguments.h"
#include "cuda/group.h"

namespace gbcompress::cuda {

GBC_DEVICE const Table& outer_codes(const Arguments& args, const Piece& piece) {
  return piece.swapped ? args.cols : args.rows;
}
GBC_DEVICE const Table& inner_codes(const Arguments& args, const Piece& piece) {
  return piece.swapped ? args.rows : args.cols;
}
GBC_DEVICE int chunks_of(const Table& codes) { return (codes.width + kCodeChunk - 1) / kCodeChunk; }

/// Address of a piece's position.
GBC_DEVICE float* address(const Arguments& args, const Piece& piece, int outer, int inner) {
  float* row = piece.data + (piece.first_outer + outer) * piece.outer_stride;
  const int at = piece.first_inner + inner;
  const int kernel = args.kernel_positions;
  if (piece.inner_stride == kernel) return row + at;
  return row + at / kernel * piece.inner_stride + at % kernel;
}

/// Eight weights of one hidden unit, zero beyond the codes' width.
struct ChunkWeights {
  float w[kCodeChunk];
};
GBC_DEVICE ChunkWeights chunk_weights(const Arguments& args, const float* theta, const Table& codes,
                                      int chunk, int unit, float sign) {
  const Layer& layer = args.layers[0];
  const float* row = theta + layer.weight + static_cast<std::int64_t>(unit) * layer.inputs;
  ChunkWeights result;
  GBC_UNROLL
  for (int c = 0; c < kCodeChunk; ++c) {
    const int code = chunk * kCodeChunk + c;
    result.w[c] =
        code < codes.width && unit < layer.outputs ? sign * row[codes.input + code] : 0.0f;
  }
  return result;
}
GBC_DEVICE const float* code_chunk(const Table& codes, int chunk, int position) {
  return codes.values + (static_cast<std::int64_t>(chunk) * codes.stride + position) * kCodeChunk;
}
GBC_DEVICE float product(const ChunkWeights& weights, const float* chunk, float sum) {
  const Four low = load_four(chunk), high = load_four(chunk + 4);
  GBC_UNROLL
  for (int c = 0; c < 4; ++c) sum += weights.w[c] * low.v[c];
  GBC_UNROLL
  for (int c = 0; c < 4; ++c) sum += weights.w[4 + c] * high.v[c];
  return sum;
}

/// The codes of four neighboring positions of a piece, one after another: those of an axis. Beyond
/// the piece they are other positions' or empty, for unused numbers.
struct AxisCodes {
  const Table& codes;
  int first;
  GBC_DEVICE int index(int at) const { return first + at; }
  GBC_DEVICE Four products(const ChunkWeights& weights, int chunk, int at, Four sums) const {
    const float* code = code_chunk(codes, chunk, first + at);
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) sums.v[r] = product(weights, code + r * kCodeChunk, sums.v[r]);
    return sums;
  }
};

/// The same where the inner axis holds several kernel positions for each of its own.
struct KernelCodes {
  const Table& codes;
  int first, last;
  int kernel;
  bool of_kernel;  ///< the kernel position's code instead of the axis'
  GBC_DEVICE int index(int at) const {
    const int position = first + smaller(at, last);
    return of_kernel ? position % kernel : position / kernel;
  }
  GBC_DEVICE Four products(const ChunkWeights& weights, int chunk, int at, Four sums) const {
    GBC_UNROLL
    for (int r = 0; r < 4; ++r)
      sums.v[r] = product(weights, code_chunk(codes, chunk, index(at + r)), sums.v[r]);
    return sums;
  }
};

GBC_DEVICE AxisCodes outer_axis(const Arguments& args, const Piece& piece) {
  return {outer_codes(args, piece), piece.first_outer};
}
/// Calls visit(codes) for each part of the inner axis' code.
template <typename Visit>
GBC_DEVICE void for_inner_axes(const Arguments& args, const Piece& piece, const Visit& visit) {
  if (args.kernel_positions == 1) {
    visit(AxisCodes{inner_codes(args, piece), piece.first_inner});
  } else {
    const int last = piece.inner - 1, kernel = args.kernel_positions;
    visit(KernelCodes{inner_codes(args, piece), piece.first_inner, last, kernel, false});
    if (args.kernel.width > 0)
      visit(KernelCodes{args.kernel, piece.first_inner, last, kernel, true});
  }
}

/// table[unit, position], positions side by side.
struct UnitMajor {
  float* data;
  int pitch;  ///< a multiple of 4, and 4 more than one of 32: no two units share a bank
  GBC_DEVICE Four load(int position, int unit) const {
    return load_four(data + unit * pitch + position);
  }
  GBC_DEVICE void store(int position, int unit, const Four& four) const {
    store_four(data + unit * pitch + position, four);
  }
};
/// table[position, unit], units side by side.
struct PositionMajor {
  float* data;
  int pitch;
  GBC_DEVICE Four load(int position, int unit) const {
    Four four;
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) four.v[r] = data[(position + r) * pitch + unit];
    return four;
  }
  GBC_DEVICE void store(int position, int unit, const Four& four) const {
    GBC_UNROLL
    for (int r = 0; r < 4; ++r) data[(position + r) * pitch + unit] = four.v[r];
  }
};

/// Which part of a table one thread makes: units thread % lanes, + lanes, ..., below `units`.
struct Share {
  int thread, threads, lanes;
};
GBC_DEVICE Share share_of(int thread, int threads, int units) {
  return {thread, threads, units <= 8 ? 8 : units <= 16 ? 16 : 32};
}

/// table[position, unit] = (fresh ? bias : what it holds) + sign * sum_c w1[first_unit + unit, c] *
/// code[position, c] for positions below `count`, rounded up to a multiple of 4.
/// @param bias  of unit 0; null: none
template <typename Axis, typename Layout>
GBC_DEVICE void add_axis(const Share& share, const Arguments& args, const float* theta,
                         const Axis& axis, int count, int first_unit, int units, float sign,
                         bool fresh, const float* bias, const Layout& table) {
  const int chunks = chunks_of(axis.codes) > 0 ? chunks_of(axis.codes) : 1;
  for (int unit = share.thread % share.lanes; unit < units; unit += share.lanes)
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const ChunkWeights weights =
          chunk_weights(args, theta, axis.codes, chunk, first_unit + unit, sign);
      const bool start = fresh && chunk == 0;
      const bool exists = first_unit + unit < args.layers[0].outputs;
      const float first = start && bias && exists ? bias[first_unit + unit] : 0.0f;
      for (int at = share.thread / share.lanes * 4; at < count;
           at += share.threads / share.lanes * 4) {
        Four sums = {{first, first, first, first}};
        if (!start) sums = table.load(at, unit);
        table.store(at, unit, axis.products(weights, chunk, at, sums));
      }
    }
}

/// a(position, unit) for a piece's outer positions.
template <typename Layout>
GBC_DEVICE void outer_table(const Share& share, const Arguments& args, const float* theta,
                            const Piece& piece, int count, int first_unit, int units,
                            const Layout& table) {
  add_axis(share, args, theta, outer_axis(args, piece), count, first_unit, units, 1.0f, true,
           theta + args.layers[0].bias, table);
}

/// sign * b(position, unit) for a piece's inner positions.
template <typename Layout>
GBC_DEVICE void inner_table(const Share& share, const Arguments& args, const float* theta,
                            const Piece& piece, int count, int first_unit, int units, float sign,
                            const Layout& table) {
  bool fresh = true;
  for_inner_axes(args, piece, [&](const auto& axis) {
    add_axis(share, args, theta, axis, count, first_unit, units, sign, fresh, nullptr, table);
    fresh = false;
  });
}

/// Where a piece's gradient goes: to the tile's own, or to a row of partial sums.
struct Destination {
  float* data;
  bool adds;
  GBC_DEVICE void put(std::int64_t parameter, float value) const {
    data[parameter] = adds ? data[parameter] + value : value;
  }
};
GBC_DEVICE Destination destination(const Arguments& args, const Piece& piece) {
  if (piece.slot >= 0) return {args.partial + piece.slot * args.parameters, false};
  return {args.grad + piece.tile * args.parameters, true};
}

}  // namespace gbcompress::cuda
