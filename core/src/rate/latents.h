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
#include "rate/packed_values.h"

namespace gbcompress {

struct DeviceRateSums;

class Latents {
 public:
  /// @param step_speed  how many times faster than a number the logarithm of a step moves; above 0
  explicit Latents(std::uint64_t seed, double step_speed = 3)
      : seed_(seed), step_speed_(step_speed) {}

  /// Takes up a tensor with its present values; the first step is a fifth of their deviation.
  /// @param live  floating: predict() writes it, its .grad is read
  /// @param grid  how its integers are coded, unless as default_grid() says
  /// @param row_steps  a step for each row of the grid instead of one
  void add(std::string name, at::Tensor live, std::optional<IntegerGrid> grid = {},
           bool row_steps = false);
  std::size_t size() const noexcept { return entries_.size(); }
  const IntegerGrid& grid(std::size_t entry) const { return entries_.at(entry).grid; }

  /// Begins anew with the tensor's present values and the present steps.
  void take(std::size_t entry);
  /// The same with that step, if one is given; and predict() leaves the tensor as it is until the
  /// next backward() or choice.
  void take_as_is(std::size_t entry, std::optional<int> step);
  /// Integers and steps that a file holds: chosen, and where training goes on.
  /// @throws Error(kShapeMismatch) for another number of them
  void take(std::size_t entry, CodedValues values);

  /// Of the live tensor: a view that others fill. Undefined: the entry is idle.
  void set_gradient(std::size_t entry, const at::Tensor& gradient);

  /// Moves latents to the devices of their tensors, where predict() and backward() then compute.
  /// The steps stay on the host.
  /// @return  whether any was moved: values() are other tensors then
  bool move_to_devices();

  /// Rounded values into the live tensors.
  void predict();
  /// Gradients of latents and steps from the live tensors' .grad, which must be defined, and from
  /// `weight` times the bits under the expected scales.
  /// @param step  numbers the noise
  /// @param count_bits  whether bits() is to be that of this pass, which costs about as much again
  void backward(double weight, std::uint64_t step, bool count_bits = true);
  /// Bits at the last backward() that counted them, noise included.
  double bits() const noexcept { return bits_; }

  /// New expected scales from the present integers: those of the coder's contexts, or one a tensor.
  void expect(bool contexts);

  /// Multiplies all steps, but makes none so small that an integer would be beyond what files hold.
  /// Expected scales follow, being in units of the step.
  void scale_steps(double factor);
  /// Multiplies all numbers, but not their steps.
  void decay(double factor);

  /// What an optimizer steps, latents and a fixed part of the logarithms of steps alternating, and
  /// its gradients.
  std::vector<at::Tensor> values() const;
  std::vector<at::Tensor> gradients() const;
  /// "fc1.weight#latent", "fc1.weight#log_step", ...: the order of values().
  std::vector<std::string> value_names() const;
  /// The scales too are part of what the next step depends on; like values().
  std::vector<at::Tensor> scales() const;

  /// Integers of one tensor for the least squared error in units of the step plus `lambda` times
  /// the bits. They hold for predict() and coded() until the next backward().
  /// @param encoder  has coded what comes before; gets the offsets of rows, if there are any, and
  ///                 the integers
  void choose(std::size_t entry, double lambda, IntegerEncoder& encoder);
  /// Whether integers of some tensor were chosen.
  bool has_chosen() const;
  void forget_chosen();
  /// Without training: integers for steps of `step` times the deviation^`evenness` of a tensor,
  /// likewise: 0 is the least squared error, 1 the same relative error in every tensor. Vectors are
  /// small and sensitive and have finer steps.
  void quantize(double step, double evenness, Quantizer quantizer);
  /// Squared error of the integers as they stand over the squares of the values, all tensors
  /// together.
  double relative_error() const;
  /// About what it would be with the nearest integers for such steps, from a sample.
  double expected_error(double step, double evenness) const;
  /// The integers as they stand: chosen ones, or the nearest.
  CodedValues coded(std::size_t entry) const;
  /// The same without the integers.
  CodedValues form(std::size_t entry) const;

 private:
  struct LatentTensor {
    std::string name;
    double step_speed;
    /// latent: float32, contiguous, shape of live; [1] or [rows], on the host
    at::Tensor live, latent, log_step;
    // What only training needs has no memory before it begins.
    at::Tensor latent_gradient, step_gradient;  ///< of the same shapes; the first by backward()
    mutable at::Tensor inverse_scale;           ///< by scale()
    IntegerGrid grid;

    bool on_host() const { return latent.device().is_cpu(); }
    /// `latent` on the host: a copy, unless it is there.
    at::Tensor host_latent() const { return latent.to(at::kCPU); }
    /// The rounded values. @param to  float32, contiguous, on the host
    void write_rounded(const at::Tensor& to) const;
    /// backward() where `latent_gradient` is the loss's. @return  bits
    double add_host_rate(float weight, std::uint32_t key, bool count_bits);
    void set_step(double size);
    double largest() const;                                   ///< magnitude of the latents
    std::vector<std::int32_t> row_offsets(int middle) const;  ///< empty where all are 0
    int middle_step() const;
    /// 1 / expected scale, in units of the step.
    at::Tensor scale() const;
    std::vector<int> step_indices() const;  ///< one, or one a row
    std::vector<float> steps() const;
    /// Numbers of the tensor's shape, in units of their steps.
    at::Tensor in_steps(const at::Tensor& numbers) const;
    int step_index(double step, double evenness) const;  ///< as quantize() takes them
    std::optional<PackedValues> chosen;                  ///< nothing: the nearest integers
    bool idle = false;  ///< the last backward() found no gradient: neither value makes a step
    bool as_is = false;                                  ///< predict() leaves the tensor alone
    double error = 0;   ///< squared error of those that a trellis chose
    double spread = 0;  ///< deviation of the first values
    /// @param integers  memory to use
    std::vector<std::int32_t> nearest(std::span<const float> steps,
                                      std::vector<std::int32_t> integers = {}) const;
    CodedValues coded(std::vector<std::int32_t> integers) const;
  };

  /// Sums of entries on devices into bits_ and gradients of steps, in one copy of each device.
  void take_sums(const std::vector<std::size_t>& entries, const std::vector<DeviceRateSums>& sums);

  std::uint64_t seed_;
  double step_speed_;
  double bits_ = 0;
  std::vector<LatentTensor> entries_;
};

}  // namespace gbcompress
