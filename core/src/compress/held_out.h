#pragma once
/// Whether a compressed model has a measurable quality drop on the held-out split.

#include <ATen/core/Tensor.h>

#include <string>

#include "gbcompress/train.h"

namespace gbcompress {

/// Compares models with the given one on samples that neither training nor calibration sees.
class HeldOut {
 public:
  /// @param model  with its first values
  HeldOut(Model& model, const Dataset& samples, Metric metric);

  struct Drop {
    double drop = 0;  ///< of quality, in the metric's unit; below 0: a gain
    /// Of accuracy: the binomial standard error of the given model's, at least that of one sample.
    /// Of a loss: the standard error of the mean of the samples' differences.
    double standard_error = 0;
    /// NaN is measurable.
    bool measurable() const { return !(drop <= standard_error); }
  };
  Drop drop(Model& model) const;
  std::int64_t samples() const { return samples_.size(); }
  /// "quality drop 0.02 points on the held-out split, within one standard error (0.03 points)"
  std::string text(const Drop& drop) const;

 private:
  const Dataset samples_;
  Metric metric_;
  at::Tensor original_;  ///< scores of the samples
};

}  // namespace gbcompress
