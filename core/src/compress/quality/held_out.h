#pragma once
/// Whether a compressed model has a measurable quality drop on the held-out split.

#include <ATen/core/Tensor.h>

#include <string>

#include "compress/candidate.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// Compares models with the given one on samples that neither training nor calibration sees.
class HeldOut {
 public:
  /// @param model  with its first values
  HeldOut(Model& model, const Dataset& samples, Metric metric);

  /// The standard error: of accuracy, the binomial one of the given model's, at least that of one
  /// sample; of a loss, of the mean of the samples' differences.
  QualityDrop drop(Model& model) const;
  std::int64_t samples() const { return samples_.size(); }
  /// "quality drop 0.02 points on the held-out split, within one standard error (0.03 points)"
  std::string text(const QualityDrop& drop) const;

 private:
  const Dataset samples_;
  Metric metric_;
  at::Tensor original_;  ///< scores of the samples
};

}  // namespace gbcompress
