#pragma once
/// The fused CPU kernel's inner part: one tile, or a range of its outer rows, in one pass that
/// never stores hidden activations. LibTorch-free; vectorised with Highway, chosen at run time for
/// the processor. docs/performance.md has the arithmetic.

#include <cstdint>
#include <vector>

#include "gbcompress/tile_kernel.h"

namespace gbcompress {

/// A tile is walked as outer x inner positions. Inner positions, with the kernel positions inside
/// them, lie next to one another in memory wherever the tensor allows it; so for a transposed
/// tensor the columns are the outer axis.
struct FusedAxes {
  bool swapped = false;           ///< outer axis = columns
  std::int64_t outer = 0;         ///< positions that exist
  std::int64_t inner = 0;         ///< positions that exist, kernel positions included
  std::int64_t outer_stride = 0;  ///< in the tensor
  std::int64_t inner_stride = 0;  ///< between inner axis positions, each `kernel` long
};
template <typename Pointer>
FusedAxes fused_axes(const TileMemory<Pointer>& tile, std::int64_t kernel) {
  const bool swapped = tile.row_stride == kernel && tile.col_stride != kernel;
  return {swapped, swapped ? tile.cols : tile.rows, (swapped ? tile.rows : tile.cols) * kernel,
          swapped ? tile.col_stride : tile.row_stride, swapped ? tile.row_stride : tile.col_stride};
}

/// Codes of one orientation, laid out for the kernels. Computed once a call, shared by all threads.
struct FusedCodes {
  std::int64_t outer_width = 0;  ///< inputs of the outer axis
  std::int64_t inner_width = 0;  ///< inputs of the inner axis, without the kernel's
  std::int64_t kernel_width = 0;
  std::int64_t outer_input = 0;  ///< first of them in the g-net's input vector
  std::int64_t inner_input = 0;
  std::int64_t kernel_input = 0;
  std::int64_t inner_count = 0;        ///< inner axis positions of an uncropped tile
  std::int64_t stride = 0;             ///< row length of `inner_columns`, padded
  const float* outer_rows = nullptr;   ///< [outer, outer_width]
  const float* inner_rows = nullptr;   ///< [inner_count, inner_width]
  const float* kernel_rows = nullptr;  ///< [kernel, kernel_width]
  /// [inner_width + kernel_width, stride]: the code of every inner position, kernel included,
  /// column by column.
  std::vector<float> inner_columns;
};
FusedCodes fused_codes(const BankShape& shape, bool swapped);

/// Reusable memory of one thread.
struct FusedScratch {
  std::vector<float> values;
  /// `count` floats at 64-byte alignment, contents undefined.
  float* take(std::int64_t count);
  std::int64_t used = 0;
  void reserve(std::int64_t floats);
};

/// Writes outer positions [first, last) of a tile. One hidden layer.
/// @param theta  of this tile's g-net
void fused_forward(const BankShape& shape, const FusedCodes& codes, const float* theta,
                   const TileTarget& tile, const FusedAxes& axes, std::int64_t first,
                   std::int64_t last, FusedScratch& scratch);

/// Adds the gradient of outer positions [first, last) to grad [parameters]. One hidden layer.
void fused_backward(const BankShape& shape, const FusedCodes& codes, const float* theta,
                    const TileSource& tile, const FusedAxes& axes, std::int64_t first,
                    std::int64_t last, float* grad, FusedScratch& scratch);

/// The same for two or more hidden layers.
void fused_forward_deep(const BankShape& shape, const FusedCodes& codes, const float* theta,
                        const TileTarget& tile, const FusedAxes& axes, std::int64_t first,
                        std::int64_t last, FusedScratch& scratch);
void fused_backward_deep(const BankShape& shape, const FusedCodes& codes, const float* theta,
                         const TileSource& tile, const FusedAxes& axes, std::int64_t first,
                         std::int64_t last, float* grad, FusedScratch& scratch);

/// The instruction set that was chosen, "AVX3_ZEN4", "AVX2", "NEON", ...
const char* fused_target_name();

}  // namespace gbcompress
