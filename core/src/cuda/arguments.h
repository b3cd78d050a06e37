#pragma once
/// What one launch reads: plain data, the same on both sides of the module's door. Every pointer is
/// to memory of the device.

#include <cstdint>

namespace gbcompress::cuda {

inline constexpr int kMaxLayers = 9;  ///< hidden layers and the output layer
inline constexpr int kCodeChunk = 8;  ///< codes that are read together
inline constexpr int kCodePadding = 12;

/// Codes of one axis as [chunks, stride, kCodeChunk], the last chunk filled up with zeros. Behind
/// the positions follow kCodePadding empty ones, so that whole groups may be read.
struct Table {
  const float* values = nullptr;
  std::int32_t stride = 0;
  std::int32_t width = 0;
  std::int32_t input = 0;  ///< first of them in the g-net's input vector
};

/// A rectangle of one tile, the work of one thread block. The outer axis is rows, or columns in a
/// transposed tensor; inner positions include kernel positions and are neighbors in memory
/// wherever the tensor allows it.
struct Piece {
  float* data = nullptr;  ///< position (0, 0, 0) of the tile
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;  ///< between inner axis positions, each `kernel` long
  std::int32_t first_outer = 0, first_inner = 0;  ///< where in the tile it begins
  std::int32_t outer = 0, inner = 0;              ///< how many positions it has
  std::int32_t tile = 0;                          ///< whose g-net
  std::int32_t slot = -1;  ///< backward: row of `partial`; -1 where it is the tile's only piece
  float scale = 1;
  std::uint32_t swapped = 0;  ///< outer axis = columns
};

/// Rows [first, first + count) of `partial` are added to the gradient of a tile.
struct Sum {
  std::int32_t tile = 0, first = 0, count = 0;
};

struct Layer {
  std::int32_t inputs = 0, outputs = 0;
  std::int64_t weight = 0, bias = 0;
};

/// Where things lie in the working memory of a block of a deep g-net, in floats.
struct DeepWork {
  std::int64_t outer = 0, inner = 0;                 ///< first layer's tables
  std::int64_t outer_grad = 0, inner_grad = 0;       ///< backward
  std::int64_t weights[kMaxLayers] = {};             ///< of layers 1..: [inputs, outputs], padded
  std::int64_t active[kMaxLayers] = {};              ///< after each hidden layer
  std::int64_t seed = 0, gradient = 0, partial = 0;  ///< backward
  std::int64_t floats = 0;
};

struct Arguments {
  const Piece* pieces = nullptr;
  const Sum* sums = nullptr;
  std::int64_t piece_count = 0, sum_count = 0;
  Table rows, cols, kernel;
  std::int32_t kernel_positions = 1;
  std::int32_t layer_count = 0;
  Layer layers[kMaxLayers];
  std::int64_t parameters = 0;   ///< of one g-net
  const float* theta = nullptr;  ///< [tiles, parameters]
  float* grad = nullptr;         ///< [tiles, parameters]
  float* partial = nullptr;      ///< [slots, parameters]
  std::int32_t units = 0;        ///< backward: hidden units of one block
  std::int32_t max_outer = 0;    ///< of all pieces
  DeepWork deep;
  float* workspace = nullptr;  ///< [blocks, deep.floats]; null: shared memory
};

enum class Operation : std::int32_t {
  kForward,
  kBackward,
  kForwardDeep,
  kBackwardDeep,
  kAddPartials,
};

struct Grid {
  std::int64_t blocks = 0;
  std::int32_t layers = 1;  ///< blocks in the second dimension
  std::int32_t threads = 0;
  std::int64_t shared_bytes = 0;
};

}  // namespace gbcompress::cuda
