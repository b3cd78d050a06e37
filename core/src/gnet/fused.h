#pragma once
/// The fused CPU kernel's inner part: one tile, or a range of its outer rows, in one pass that
/// never stores hidden activations. LibTorch-free; vectorized with Highway, chosen at run time for
/// the processor. docs/explanation/performance.md has the arithmetic.

#include <cstdint>
#include <vector>

#include "base/internal.h"
#include "gnet/tile_kernel.h"

namespace GBC_INTERNAL gbcompress {

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
FusedAxes fused_axes(const BankShape& shape, const TileMemory<Pointer>& tile) {
  const std::int64_t kernel = shape.kernel;
  const bool swapped =
      !is_product(shape.generator) && tile.row_stride == kernel && tile.col_stride != kernel;
  return {swapped, swapped ? tile.cols : tile.rows, (swapped ? tile.rows : tile.cols) * kernel,
          swapped ? tile.col_stride : tile.row_stride, swapped ? tile.row_stride : tile.col_stride};
}

/// Codes of one orientation, laid out for the kernels. Computed once a call and shared by all
/// threads; once a piece where codes are trained, because then every g-net has its own.
struct FusedCodes {
  std::int64_t outer_width = 0;  ///< inputs of the outer axis
  std::int64_t inner_width = 0;  ///< inputs of the inner axis, without the kernel's
  std::int64_t kernel_width = 0;
  std::int64_t outer_input = 0;  ///< first of them in the g-net's input vector
  std::int64_t inner_input = 0;
  std::int64_t kernel_input = 0;
  std::int64_t outer_latents = -1;  ///< offset of trained codes in theta; -1: none
  std::int64_t inner_latents = -1;
  std::int64_t inner_count = 0;        ///< inner axis positions of an uncropped tile
  std::int64_t stride = 0;             ///< row length of `inner_columns`, padded
  const float* outer_rows = nullptr;   ///< [outer, outer_width]
  const float* inner_rows = nullptr;   ///< [inner_count, inner_width]
  const float* kernel_rows = nullptr;  ///< [kernel, kernel_width]
  /// [inner_width + kernel_width, stride]: the code of every inner position, kernel included,
  /// column by column.
  std::vector<float> inner_columns;
};
/// @param theta  of the g-net, for trained codes; else unused
FusedCodes fused_codes(const BankShape& shape, bool swapped, const float* theta);

/// Outer positions [first, last) of one tile, and one output of its g-net.
struct FusedPiece {
  const BankShape& shape;
  const FusedCodes& codes;
  const float* theta;  ///< of this tile's g-net
  FusedAxes axes;
  std::int64_t first, last;
  std::int64_t output = 0;  ///< of the last layer: 0 mean, 1 log of the deviation

  std::int64_t rows() const { return last - first; }
  /// As shape.layers(), the last one reduced to `output`.
  std::vector<BankShape::Layer> layers() const;
};

/// Reusable memory of one thread.
struct FusedScratch {
  std::vector<float> values;
  /// `count` floats at 64-byte alignment, contents undefined.
  float* take(std::int64_t count);
  std::int64_t used = 0;
  void reserve(std::int64_t floats);
  /// Values of a whole piece, beside what one pass takes.
  std::vector<float> mean, deviation, normal;
};

/// Writes scale * output. One hidden layer.
/// @param data  position (first, 0), laid out as piece.axes says
void fused_forward(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch);
/// Adds the gradient to grad [parameters]. One hidden layer.
/// @param data  dL/dtile at position (first, 0); multiplied by scale
void fused_backward(const FusedPiece& piece, const float* data, float scale, float* grad,
                    FusedScratch& scratch);

/// The same for two or more hidden layers.
void fused_forward_deep(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch);
void fused_backward_deep(const FusedPiece& piece, const float* data, float scale, float* grad,
                         FusedScratch& scratch);

/// The same for two outputs, mean and log of the deviation, of g-nets of any depth.
void fused_forward_stochastic(const FusedPiece& piece, const TileTarget& tile,
                              FusedScratch& scratch);
void fused_backward_stochastic(const FusedPiece& piece, const TileSource& tile, float* grad,
                               FusedScratch& scratch);

/// The same for products of matrices. Never swapped: the kernel belongs to the columns.
void fused_forward_product(const FusedPiece& piece, float* data, float scale,
                           FusedScratch& scratch);
void fused_backward_product(const FusedPiece& piece, const float* data, float scale, float* grad,
                            FusedScratch& scratch);

/// The instruction set that was chosen, "AVX3_ZEN4", "AVX2", "NEON", ...
const char* fused_target_name();

}  // namespace gbcompress
