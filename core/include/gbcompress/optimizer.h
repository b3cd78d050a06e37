#pragma once
/// The optimizer, and many small MLPs that are trained as one.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gbcompress/options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// AdamW or SGD, as the options say: one fused pass over parameters, gradients and moments. The
/// bits of a float32 number depend on itself, its gradients and its moments alone.
class AdamW {
 public:
  /// What the next step depends on beside the parameters. Shapes and order are the parameters'.
  struct State {
    std::vector<std::int64_t> steps;
    std::vector<at::Tensor> first, second;  ///< both moments; of SGD: the velocity, and zeros
  };

  /// @param parameters  dense, of a floating type; updated in place
  /// @throws Error(kUsage) for another kind of tensor or an option out of range
  AdamW(std::vector<at::Tensor> parameters, AdamWOptions options);
  /// @param gradients  of the parameters' shapes and types; an undefined one leaves its parameter
  ///                   and its step count as they are
  /// @param lr_factor  multiplies options.lr for this step, 0 or more
  /// @throws Error(kShapeMismatch, kUsage); nothing has then been changed
  void step(const std::vector<at::Tensor>& gradients, double lr_factor = 1);
  /// Calls of step() since the beginning or since what restore() brought back.
  std::int64_t steps() const noexcept;
  const AdamWOptions& options() const noexcept { return options_; }

  /// A copy; restoring it gives the same bits from there on.
  State state() const;
  /// @throws Error(kShapeMismatch) for a state of other parameters; nothing has then been changed
  void restore(const State& state);

 private:
  AdamWOptions options_;
  std::vector<at::Tensor> parameters_;
  State state_;
};

// Many small MLPs of one shape, computed and trained as one.
//
//   EnsembleMlp nets(64, {784, 16, 10});
//   AdamW adamw(nets.parameters(), {});
//   at::Tensor outputs = nets.forward(x);           // x [batch, 784] -> [64, batch, 10]
//   at::Tensor losses = ...;                        // one loss a member
//   losses.sum().backward();                        // members do not see one another
//   adamw.step(nets.gradients());
//
// On several ranks, each with its own part of the batch: average(group, nets.gradients()) of
// gbcompress/ranks.h before the step.

/// Between the layers of a network.
enum class Activation : std::uint8_t { kRelu, kTanh };

/// N independent networks `inputs -> hidden... -> outputs`, an activation between layers and none
/// at the end. Each layer of all members is one batched product, so that the cost of a call is not
/// N times the cost of calling LibTorch.
class EnsembleMlp {
 public:
  /// Weights and biases ~ U(-1/sqrt(inputs), 1/sqrt(inputs)) of their layer, as torch.nn.Linear. A
  /// member's numbers depend on (seed, its index) alone: it is the same member in a larger
  /// ensemble.
  /// @param members  1 or more
  /// @param widths   2 to 16 widths of 1 or more: inputs, hidden layers, outputs
  /// @throws Error(kUsage) for others, Error(kLimit) above 2^40 parameters
  EnsembleMlp(std::int64_t members, std::vector<std::int64_t> widths, std::uint64_t seed = 0,
              Activation activation = Activation::kRelu);

  std::int64_t members() const noexcept { return members_; }
  const std::vector<std::int64_t>& widths() const noexcept { return widths_; }

  /// @param x  [batch, inputs], seen by every member, or [members, batch, inputs]; float32
  /// @return   [members, batch, outputs]; differentiable by autograd
  /// @throws Error(kShapeMismatch)
  at::Tensor forward(const at::Tensor& x) const;

  /// Leaves that require gradients: weight [members, outputs, inputs] and bias [members, outputs]
  /// of each layer in turn.
  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Their gradients in the same order; undefined where backward() has not been.
  std::vector<at::Tensor> gradients() const;
  void zero_grad();

  /// Views of one member's parameters: weight [outputs, inputs] and bias [outputs] of each layer,
  /// as a torch.nn.Sequential of Linear layers holds them. Writing to them writes to the ensemble.
  /// @throws Error(kUsage) for a member that does not exist
  std::vector<at::Tensor> member(std::int64_t index) const;

 private:
  std::int64_t members_;
  std::vector<std::int64_t> widths_;
  Activation activation_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace gbcompress
