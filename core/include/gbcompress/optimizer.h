#pragma once
/// AdamW.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/optimizer_options.h"

namespace GBC_API gbcompress {

/// One fused pass over parameters, gradients and both moments. (Loshchilov and Hutter,
/// arXiv 1711.05101.)
class AdamW {
 public:
  /// What the next step depends on beside the parameters. Shapes and order are the parameters'.
  struct State {
    std::vector<std::int64_t> steps;
    std::vector<at::Tensor> first, second;  ///< both moments
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

}  // namespace gbcompress
