#pragma once
/// What one thread block of a launch does.

#include "cuda/backward.h"
#include "cuda/deep_backward.h"
#include "cuda/forward.h"

namespace gbcompress::cuda {

inline constexpr int kSumThreads = 256;

/// Adds the partial gradients of a tile's pieces to its own, in their order.
/// @param chunk  which group.size() parameters
template <typename Group>
GBC_DEVICE void add_partials(const Group& group, const Arguments& args, const Sum& sum, int chunk) {
  group.each([&](int thread) {
    const std::int64_t n = static_cast<std::int64_t>(chunk) * group.size() + thread;
    if (n >= args.parameters) return;
    const float* part = args.partial + sum.first * args.parameters + n;
    const auto at = [&](int slot) {
      return slot < sum.count ? part[slot * args.parameters] : 0.0f;
    };
    float sums[4] = {};  // four chains, so that loads need not wait for one another
    for (int slot = 0; slot < sum.count; slot += 4) {
      GBC_UNROLL
      for (int r = 0; r < 4; ++r) sums[r] += at(slot + r);
    }
    args.grad[sum.tile * args.parameters + n] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  });
}

/// The pieces of one block of a deep g-net: every `blocks`-th, because there may be fewer
/// workspaces than pieces.
template <Operation kOperation, typename Group>
GBC_DEVICE void deep_pieces(const Group& group, const Arguments& args, std::int64_t block,
                            std::int64_t blocks, float* work) {
  for (std::int64_t n = block; n < args.piece_count; n += blocks) {
    if constexpr (kOperation == Operation::kForwardDeep)
      forward_deep_piece(group, args, args.pieces[n], work);
    else
      backward_deep_piece(group, args, args.pieces[n], work);
  }
}

/// @param block, layer  number of the block in both dimensions of the grid
/// @param blocks        how many there are in the first
/// @param shared        shared memory at 16-byte alignment
template <Operation kOperation, typename Group>
GBC_DEVICE void run_block(const Group& group, const Arguments& args, std::int64_t block,
                          std::int64_t blocks, int layer, float* shared) {
  if constexpr (kOperation == Operation::kForward) {
    forward_piece(group, args, args.pieces[block], shared);
  } else if constexpr (kOperation == Operation::kBackward) {
    backward_piece(group, args, args.pieces[block], layer, shared);
  } else if constexpr (kOperation == Operation::kAddPartials) {
    add_partials(group, args, args.sums[block], layer);
  } else if (args.workspace) {
    deep_pieces<kOperation>(group, args, block, blocks, args.workspace + block * args.deep.floats);
  } else {  // apart, so that the compiler knows which memory it reads
    deep_pieces<kOperation>(group, args, block, blocks, shared);
  }
}

}  // namespace gbcompress::cuda
