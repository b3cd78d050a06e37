#pragma once
/// How tiles are computed from g-net parameters, and how gradients go back. One interface; the
/// `reference` kernel is the oracle and the artifact's exact decoder, faster kernels are tested
/// against it. No LibTorch here.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/internal.h"
#include "gbcompress/gnet.h"

namespace GBC_INTERNAL gbcompress {

class RandomStream;

/// What a stochastic tile is drawn with: position p of the whole tile, numbered (i, j, k)
/// row-major, gets the normal number `first + p` of the stream. The same numbers whatever the
/// layout, the kernel, or the thread.
struct TileNoise {
  const RandomStream* stream = nullptr;  ///< null: the mean alone
  std::uint64_t first = 0;
};

/// Memory of one tile inside a tensor. Position (i, j, k) is
/// `data[i * row_stride + j * col_stride + k]`, i < rows, j < cols, k < kernel; rows and cols may
/// be smaller than the tile's (cropped), and what is cropped is neither computed nor touched.
template <typename Pointer>
struct TileMemory {
  Pointer data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  float scale = 1;  ///< forward: multiplies the g-net's output; backward: multiplies the gradient
  TileNoise noise = {};  ///< stochastic g-nets; forward and backward of a step use the same
  /// Stochastic g-nets with deviations too, laid out as `data`. forward: receives the
  /// log of every deviation, in units of scale; backward: the loss's gradient with respect to it,
  /// not multiplied by scale. Null: none.
  Pointer log_deviation = nullptr;
};
using TileTarget = TileMemory<float*>;
using TileSource = TileMemory<const float*>;

class TileKernel {
 public:
  virtual ~TileKernel();
  virtual std::string_view name() const noexcept = 0;

  /// Writes every tile.
  /// @param theta  [tiles.size(), shape.parameters()], g-net t makes tile t
  void forward(const BankShape& shape, std::span<const float> theta,
               std::span<const TileTarget> tiles) const;

  /// Adds J^T * (scale * dL/dtile) to `grad`, where J = d(unscaled output)/d(theta).
  /// @param grad  [tiles.size(), shape.parameters()]
  void backward(const BankShape& shape, std::span<const float> theta,
                std::span<const TileSource> tiles, std::span<float> grad) const;

 private:
  virtual void forward_impl(const BankShape& shape, std::span<const float> theta,
                            std::span<const TileTarget> tiles) const = 0;
  virtual void backward_impl(const BankShape& shape, std::span<const float> theta,
                             std::span<const TileSource> tiles, std::span<float> grad) const = 0;
};

/// The oracle: plain loops, one tile at a time, float arithmetic in one fixed order without fused
/// multiply-add, so that the same bits come out everywhere (artifact-gnets.md writes it
/// down).
std::unique_ptr<TileKernel> make_reference_kernel();

/// make_fused_kernel_with() of threaded_kernels.h over the threads of at::parallel_for. Of the
/// library with LibTorch.
std::unique_ptr<TileKernel> make_fused_kernel();

}  // namespace gbcompress
