#pragma once
/// The integers that a bottleneck trains, and the rate weight.

#include <memory>
#include <optional>
#include <vector>

#include "bottleneck/rate_schedule.h"
#include "gbcompress/bottleneck.h"
#include "rate/latents.h"

namespace gbcompress {

struct IntegerPart {
  /// Numbers that are stored as integers while they train, and what steps them.
  struct Coded {
    Coded(std::uint64_t seed, double step_speed) : latents(seed, step_speed) {}
    void make_optimizer(AdamWOptions options);
    /// Moves latents and the optimizer's state to the devices of their tensors; before a step.
    void move_to_devices();
    /// Gradients of what is read become those of latents and steps.
    /// @param setting  the learning rate to lower where one is not finite
    void backward(double loss_per_bit, const char* setting);
    void step(double lr_factor);

    Latents latents;
    std::unique_ptr<AdamW> optimizer;
    double weight_decay = 0;  ///< of the latents alone: the logarithm of a step should not decay
  };

  explicit IntegerPart(const BottleneckOptions& options);
  bool any() const { return !tensors.empty() || of_gnets; }
  /// Of the rate weight's schedule so far.
  std::int64_t steps() const;
  /// From here on a number's bits are taken under what the coder expects of it as the integers are
  /// now.
  void expect(bool contexts);
  void scale_steps(double factor);
  bool chosen() const;
  void forget_chosen();

  Coded quantized;                   ///< of `tensors`
  std::vector<std::size_t> tensors;  ///< quantized ones, indices into the bottleneck's
  Coded gnets;                       ///< blocks of all layers' g-nets, or nothing
  bool of_gnets;                     ///< g-nets are integers
  RateSchedule schedule;
  double loss_per_bit = 0;
  bool rate_begun = false;  ///< loss_per_bit is that of the next backward()
  /// The integers of all tensors as the file has them, from where they were last coded.
  mutable std::optional<std::vector<std::byte>> stream;
};

}  // namespace gbcompress
