#pragma once
/// The g-nets of one tensor whose parameters are integers times steps, trained with the bits in the
/// loss, over plain memory. No LibTorch.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/codec.h"
#include "gbcompress/coded_values.h"
#include "optim/gnet_layer.h"
#include "rate/latent_numbers.h"

namespace GBC_INTERNAL gbcompress {

/// With the same calls, the bits that a GenomicBottleneck with Coding::kCoded gives the same
/// tensor. [not thread-safe]
class CodedGnets {
 public:
  /// Initialized g-nets of that specification; a step for each block of gnet_blocks(), at first a
  /// fifth of the deviation of its values.
  /// @param step_speed  BottleneckOptions::step_speed
  /// @throws Error(kUsage) for an option out of range; as validate()
  CodedGnets(const GNetSpec& spec, const std::string& name, std::uint64_t seed,
             const AdamWOptions& optimizer, double step_speed = 3);

  const GNetSpec& spec() const noexcept { return gnets_.spec(); }
  std::int64_t steps() const noexcept { return steps_; }
  std::int64_t floats(TileLayout layout) const { return gnets_.floats(layout); }
  /// Parameters of the g-nets as they are rounded, [tiles, parameters].
  std::span<const float> theta();
  std::span<const float> gradient() const noexcept { return gnets_.gradient(); }

  void zero_grad() { gnets_.zero_grad(); }
  /// As GnetLayer::predict(), with parameters that are integers times their steps.
  void predict(const TileKernel& kernel, std::span<float> to, TileLayout layout,
               std::optional<std::uint64_t> noise);
  /// As GnetLayer::backward(), with the gradient of the loss itself, to which that of the rate is
  /// added by add_rate().
  void backward(const TileKernel& kernel, std::span<const float> from, TileLayout layout,
                float factor);
  /// Gradients of latents and steps from those of backward() and from `weight` times the bits;
  /// once a step, after the last backward().
  /// @param weight  loss per bit, 0 or more. @throws Error(kNonFinite) naming the tensor
  void add_rate(double weight);
  /// One step of the optimizer. @throws Error(kUsage) for a factor below 0
  void step(double lr_factor);
  /// Bits of all parameters at the last add_rate() that counted them (every tenth step), with
  /// noise.
  double bits() const noexcept { return bits_; }

  /// New expected scales from the present integers: those of the coder's contexts, or one a block.
  void expect(bool contexts);
  /// Multiplies all steps, but makes none so small that an integer would be beyond what files hold.
  void scale_steps(double factor);
  /// Integers for the least squared error in units of the step plus `lambda` times the bits. They
  /// hold until the next add_rate(). @param encoder  has coded what comes before; gets the integers
  void choose(double lambda, IntegerEncoder& encoder);
  void forget_chosen();
  /// The integers as they stand: chosen ones, or the nearest.
  CodedTheta coded() const;

  /// Parameters of a file, with the output scale that belongs to them; the optimizer starts anew.
  /// They stay as they are until the next add_rate() or choice.
  /// @param theta_steps  a block each; empty: the present ones. @throws Error(kShapeMismatch)
  void restore(std::span<const float> theta, float output_scale,
               const std::vector<int>& theta_steps);

  /// Everything that the next step depends on. `values`: latents and then the logarithm of the step
  /// of each block; the moments are of the same length, empty before the first step.
  struct State {
    std::vector<float> values, first, second;
    std::vector<float> inverse_scales;  ///< one a latent
    std::int64_t steps = 0;
  };
  State state() const;
  /// @throws Error(kShapeMismatch) for vectors of other lengths; Error(kUsage) for steps below 0
  void restore_state(State state, float output_scale);

 private:
  struct Block {
    std::size_t column, columns;  ///< in a g-net's parameters
    std::size_t first, count;     ///< in the latents: [tiles, columns]
    IntegerGrid grid;
    std::optional<std::vector<std::int32_t>> chosen;  ///< nothing: the nearest
    bool as_is = false;                               ///< theta stays as it is
  };

  template <typename T>
  std::span<T> part(std::vector<T>& all, const Block& block) const {
    return std::span(all).subspan(block.first, block.count);
  }
  std::span<const float> latents(const Block& block) const {
    return std::span<const float>(values_).subspan(block.first, block.count);
  }
  float& log_step(std::size_t block) { return values_[inverse_scales_.size() + block]; }
  int step_index(std::size_t block) const {
    return step_of(values_[inverse_scales_.size() + block], speed_);
  }
  std::vector<std::int32_t> nearest(std::size_t block) const;
  /// Calls visit(part of theta, the same part of `numbers`) for each tile of a block.
  template <typename Numbers, typename Visit>
  void for_tiles(const Block& block, Numbers numbers, const Visit& visit);
  void take();           ///< latents from theta
  void write_rounded();  ///< theta from latents

  GnetLayer gnets_;
  std::string name_;
  std::uint64_t seed_;
  AdamWOptions optimizer_;
  double weight_decay_;  ///< of the latents alone: the logarithm of a step should not decay
  double speed_;
  std::vector<Block> blocks_;
  std::vector<float> values_, gradients_;  ///< latents, then the logarithm of each block's step
  std::vector<float> inverse_scales_;
  std::vector<float> first_, second_;  ///< moments; none before the first step
  std::int64_t steps_ = 0;
  double bits_ = 0;
};

}  // namespace gbcompress
