#pragma once
/// Tensors that will be stored as integers times a step, while they are trained: the loss sees them
/// rounded, the rate sees them with noise, and the step is learned too.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/codec.h"

namespace gbcompress {

class Latents {
 public:
  explicit Latents(std::uint64_t seed) : seed_(seed) {}

  /// Takes up a tensor with its present values; the first step is a fifth of their deviation.
  /// @param live  floating, dense: predict() writes it, its .grad is read
  void add(std::string name, at::Tensor live);
  std::size_t size() const noexcept { return entries_.size(); }

  /// Rounded values into the live tensors.
  void predict();
  /// Gradients of latents and steps from the live tensors' .grad, which must be defined, and from
  /// `weight` times the bits under the expected scales.
  /// @param step  numbers the noise
  void backward(double weight, std::uint64_t step);
  /// Bits at the last backward(), noise included.
  double bits() const noexcept { return bits_; }

  /// New expected scales from the present integers: those of the coder's contexts, or one a tensor.
  void expect(bool contexts);

  /// Multiplies all steps. Expected scales follow, being in units of the step.
  void scale_steps(double factor);

  /// What an optimiser steps, latents and logarithms of steps alternating, and its gradients.
  std::vector<at::Tensor> values() const;
  std::vector<at::Tensor> gradients() const;
  /// "fc1.weight#latent", "fc1.weight#log_step", ...: the order of values().
  std::vector<std::string> value_names() const;
  /// The scales too are part of what the next step depends on; like values().
  std::vector<at::Tensor> scales() const;

  /// Integers for the least squared error in units of the step plus `lambda` times the bits. They
  /// hold for predict() and coded() until the next backward().
  void choose(double lambda);
  /// Without training: nearest integers for steps of `step` times the deviation^`evenness` of a
  /// tensor, likewise: 0 is the least squared error, 1 the same relative error in every tensor.
  /// Vectors, which are few numbers that weigh much, have finer steps.
  void quantise(double step, double evenness);
  /// Squared error of the integers as they stand over the squares of the values, all tensors
  /// together.
  double relative_error() const;
  /// The integers as they stand: chosen ones, or the nearest.
  CodedValues coded(std::size_t entry) const;

 private:
  struct Entry {
    std::string name;
    at::Tensor live, latent, log_step;          ///< latent: float32, dense, shape of live; [1]
    at::Tensor latent_gradient, step_gradient;  ///< of the same shapes
    at::Tensor inverse_scale;                   ///< 1 / expected scale, in units of the step
    IntegerGrid grid;

    int step_index() const;
    float step() const { return step_size(step_index()); }
    std::optional<CodedValues> chosen;  ///< nothing: the nearest integers
    double spread = 0;                  ///< deviation of the first values
    /// @param integers  memory to use
    std::vector<std::int32_t> nearest(float size, std::vector<std::int32_t> integers = {}) const;
  };

  std::uint64_t seed_;
  double bits_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace gbcompress
