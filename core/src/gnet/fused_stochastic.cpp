// Two outputs, one pass each: with w = mean + exp(s) * e and fixed noise e,
//     dL/dmean = g,   dL/ds = g * exp(s) * e,
// and both go back through the same hidden layers, where gradients add up.
#include <cmath>

#include "base/random.h"
#include "gnet/fused.h"

namespace gbcompress {
namespace {

FusedPiece of_output(const FusedPiece& piece, std::int64_t output) {
  FusedPiece result = piece;
  result.output = output;
  return result;
}

/// Positions [first, last) as dense rows [rows, inner].
FusedPiece dense(const FusedPiece& piece, std::int64_t output) {
  FusedPiece result = of_output(piece, output);
  result.axes.outer_stride = piece.axes.inner;
  result.axes.inner_stride = piece.shape.kernel;
  return result;
}

void forward(const FusedPiece& piece, float* data, float scale, FusedScratch& scratch) {
  const bool shallow = piece.shape.hidden.size() == 1;
  (shallow ? fused_forward : fused_forward_deep)(piece, data, scale, scratch);
}

void backward(const FusedPiece& piece, const float* data, float scale, float* grad,
              FusedScratch& scratch) {
  const bool shallow = piece.shape.hidden.size() == 1;
  (shallow ? fused_backward : fused_backward_deep)(piece, data, scale, grad, scratch);
}

/// scratch.deviation := exp(s) * e for every position of the piece, dense.
void draw(const FusedPiece& piece, const TileNoise& noise, FusedScratch& scratch) {
  const BankShape& shape = piece.shape;
  const std::int64_t inner = piece.axes.inner, kernel = shape.kernel;
  scratch.deviation.resize(static_cast<std::size_t>(piece.rows() * inner));
  forward(dense(piece, 1), scratch.deviation.data(), 1, scratch);
  scratch.normal.resize(static_cast<std::size_t>(inner));
  float* value = scratch.deviation.data();
  for (std::int64_t i = piece.first; i < piece.last; ++i, value += inner) {
    // Numbers are counted along the rows of the tile; swapped axes walk across them.
    const std::int64_t row = shape.tile_cols * kernel;
    for (std::int64_t j = 0; j < inner;) {
      const std::int64_t run = piece.axes.swapped ? kernel : inner;
      const std::int64_t at = piece.axes.swapped ? j / kernel * row + i * kernel : i * row;
      noise.stream->fill_normal({scratch.normal.data() + j, static_cast<std::size_t>(run)}, 0, 1,
                                noise.first + static_cast<std::uint64_t>(at));
      j += run;
    }
    for (std::int64_t j = 0; j < inner; ++j)
      value[j] = std::exp(value[j]) * scratch.normal[static_cast<std::size_t>(j)];
  }
}

/// Calls visit(offset in the tensor, index in the dense rows) for every position.
template <typename Visit>
void for_positions(const FusedPiece& piece, Visit visit) {
  std::int64_t index = 0;
  for (std::int64_t i = 0; i < piece.rows(); ++i)
    for (std::int64_t j = 0; j < piece.axes.inner; j += piece.shape.kernel)
      for (std::int64_t k = 0; k < piece.shape.kernel; ++k, ++index)
        visit(i * piece.axes.outer_stride + j / piece.shape.kernel * piece.axes.inner_stride + k,
              static_cast<std::size_t>(index));
}

}  // namespace

void fused_forward_stochastic(const FusedPiece& piece, const TileTarget& tile,
                              FusedScratch& scratch) {
  const std::int64_t offset = piece.first * piece.axes.outer_stride;
  float* data = tile.data + offset;
  if (tile.log_deviation) forward(of_output(piece, 1), tile.log_deviation + offset, 1, scratch);
  if (!tile.noise.stream) return forward(piece, data, tile.scale, scratch);
  draw(piece, tile.noise, scratch);
  scratch.mean.resize(scratch.deviation.size());
  forward(dense(piece, 0), scratch.mean.data(), 1, scratch);
  for_positions(piece, [&](std::int64_t at, std::size_t index) {
    data[at] = (scratch.mean[index] + scratch.deviation[index]) * tile.scale;
  });
}

void fused_backward_stochastic(const FusedPiece& piece, const TileSource& tile, float* grad,
                               FusedScratch& scratch) {
  const std::int64_t offset = piece.first * piece.axes.outer_stride;
  const float* data = tile.data + offset;
  backward(piece, data, tile.scale, grad, scratch);
  if (tile.log_deviation)
    backward(of_output(piece, 1), tile.log_deviation + offset, 1, grad, scratch);
  if (!tile.noise.stream) return;
  draw(piece, tile.noise, scratch);
  for_positions(piece, [&](std::int64_t at, std::size_t index) {
    scratch.deviation[index] *= data[at] * tile.scale;
  });
  backward(dense(piece, 1), scratch.deviation.data(), 1, grad, scratch);
}

}  // namespace gbcompress
