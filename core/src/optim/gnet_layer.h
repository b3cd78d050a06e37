#pragma once
/// The g-nets of one tensor, trained over plain memory. No LibTorch.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "base/random.h"
#include "gbcompress/gnet.h"
#include "gbcompress/schedule.h"
#include "gnet/threaded_kernels.h"

namespace GBC_INTERNAL gbcompress {

/// What the memory of weights, or of their gradients, holds.
enum class TileLayout : std::uint8_t {
  kTensor,  ///< the tensor of the specification, contiguous
  kTiles,   ///< its tiles one after another, [tiles, tile_rows, tile_cols, kernel], none cropped
};

/// What backward() multiplies dL/dW by.
enum class GradientScale : std::uint8_t {
  kTorchGb,  ///< gradient_scale(): the steps of torchGB
  kLoss,     ///< the output scale: the gradient of the loss itself
};

/// With the same calls, the bits that a GenomicBottleneck gives the same tensor: its kernels, first
/// values, gradient scale and optimizer. [not thread-safe]
class GnetLayer {
 public:
  /// Initialized g-nets of that specification.
  /// @param name  of the tensor; first values and noise depend on it and on the seed
  /// @throws Error(kUsage) for an option out of range; as validate()
  GnetLayer(GNetSpec spec, std::string name, std::uint64_t seed, const AdamWOptions& optimizer,
            GradientScale scale = GradientScale::kTorchGb);

  const GNetSpec& spec() const noexcept { return spec_; }
  const BankShape& shape() const noexcept { return shape_; }
  /// Parameters of all g-nets, [tiles, shape().parameters()].
  std::span<float> theta() noexcept { return theta_; }
  std::span<const float> gradient() const noexcept { return gradient_; }
  std::int64_t steps() const noexcept { return steps_; }
  /// Floats that predict() writes and backward() reads.
  std::int64_t floats(TileLayout layout) const;

  void zero_grad();
  /// Writes the weights.
  /// @param to     [floats(layout)]
  /// @param noise  stochastic g-nets draw the weights of that step; nothing: they give their means
  /// @throws Error(kShapeMismatch) for memory of another size
  void predict(const TileKernel& kernel, std::span<float> to, TileLayout layout,
               std::optional<std::uint64_t> noise);
  /// Adds the gradient of the parameters, with the noise of the last predict().
  /// @param from    dL/dW, [floats(layout)]
  /// @param factor  multiplies it
  /// @throws Error(kShapeMismatch) for memory of another size; Error(kNonFinite) naming the tensor
  void backward(const TileKernel& kernel, std::span<const float> from, TileLayout layout,
                float factor);
  /// One step of the optimizer.
  /// @param lr_factor  multiplies the learning rate, 0 or more. @throws Error(kUsage) below 0
  void step(double lr_factor, const RangeRunner& run);
  /// Other parameters, with the output scale that belongs to them; the optimizer starts anew.
  /// @param theta  [tiles, shape().parameters()]. @throws Error(kShapeMismatch)
  void restore(std::span<const float> theta, float output_scale);
  /// Moments of the optimizer, [tiles, shape().parameters()] each; empty before the first step.
  std::span<const float> first_moment() const noexcept { return first_; }
  std::span<const float> second_moment() const noexcept { return second_; }
  /// The optimizer goes on from here; after restore().
  /// @param first, second  as the moments; both empty: it starts anew
  /// @throws Error(kShapeMismatch); Error(kUsage) for a negative number of steps
  void restore_moments(std::span<const float> first, std::span<const float> second,
                       std::int64_t steps);

 private:
  GNetSpec spec_;
  std::string name_;
  std::uint64_t seed_;
  AdamWOptions optimizer_;
  GradientScale scale_;
  BankShape shape_;
  TileGrid grid_;
  std::vector<float> theta_, gradient_;
  std::vector<float> first_, second_;  ///< moments; none before the first step
  std::int64_t steps_ = 0;
  std::optional<RandomStream> noise_;  ///< of the weights that were drawn last
};

}  // namespace gbcompress
