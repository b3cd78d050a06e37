#pragma once
/// Batch norms make up for what rounding does to the weights before them.

#include <array>
#include <cstdint>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// Rounded weights shift and scale what reaches a batch norm, channel by channel, and the shifts of
/// all layers add up; on ResNet-20 at 80 kB they are most of what is lost. Both are measured on
/// samples, with the model's first values and with the rounded ones, and the running statistics
/// corrected by the difference.
class NormCorrection {
 public:
  /// @param model  with its first values, norms not folded; unchanged afterwards
  NormCorrection(Model& model, Dataset samples);
  /// Norms that are corrected: none where nothing moves their statistics, as in traced models.
  std::size_t size() const noexcept { return norms_.size(); }
  /// Weights and biases of the norms become those of the start, running means and variances the
  /// corrected ones. All other tensors are what the model computes with, and stay.
  void apply(Model& model) const;
  /// Indices into model.tensors(): weights and biases, which folding changes.
  std::vector<std::size_t> vectors() const;

 private:
  struct Norm {
    std::array<std::size_t, 4> tensors;  ///< weight, bias, running_mean, running_var
    std::array<at::Tensor, 4> values;    ///< of the start, float64
    at::Tensor mean, variance;           ///< of what reached it at the start
    double moved = 1;  ///< what a batch changes of its running statistics (torch.nn: momentum)
  };
  struct Reached {
    std::vector<at::Tensor> mean, variance;  ///< one a norm, float64
  };
  Reached reached(Model& model, double variance_before, std::int64_t batches) const;

  Dataset samples_;
  std::vector<Norm> norms_;
};

}  // namespace gbcompress
