#pragma once
/// Batch norms make up for what rounding does to the weights before them.

#include <array>
#include <cstdint>
#include <vector>

#include "gbcompress/model.h"
#include "model/batch_norms.h"

namespace gbcompress {

/// Rounded weights shift and scale what reaches a batch norm, channel by channel, and the shifts of
/// all layers add up. Both are measured on samples, with the model's first values and with the
/// rounded ones, and the running statistics scaled and moved by the difference. Statistics of the
/// samples themselves are never stored: samples may be of another kind than the training data.
class NormCorrection {
 public:
  /// @param model  with its first values, norms not folded; unchanged afterwards
  NormCorrection(Model& model, Dataset samples);
  /// Norms that are corrected: none that the forward pass does not call.
  std::size_t size() const noexcept { return norms_.size(); }
  /// Weights and biases of the norms become those of the start, running means and variances the
  /// corrected ones. All other tensors are what the model computes with, and stay.
  ///
  /// A norm is corrected before it runs, by the samples so far: what it passes on is corrected when
  /// the next one is measured. Otherwise a norm would be corrected for the changes of those before
  /// it a second time.
  void apply(Model& model) const;
  /// Indices into model.tensors(): weights and biases, which folding changes.
  std::vector<std::size_t> vectors() const;

 private:
  struct Start {
    std::array<at::Tensor, 4> values;  ///< as BatchNorm::tensors, float64
    /// Of the inputs of each call count, sum and sum of squares. float64 [3, channels]
    std::vector<at::Tensor> sums;
  };

  Dataset samples_;
  std::vector<BatchNorm> norms_;
  std::vector<Start> starts_;  ///< one a norm
};

}  // namespace gbcompress
