#pragma once
/// Steps of residual parameters that nobody trains, from what training samples say.

#include "gbcompress/train.h"
#include "train/land.h"
#include "train/norm_correction.h"

namespace gbcompress {

/// Where bytes go: equal slope of what the outputs lose per bit. At high rate a tensor's bits fall
/// by 1 a weight where its step doubles and its error is importance * step^2 / 12, so that steps
/// are proportional to importance^(-1/2); at the rates of small files rounding saturates, which is
/// why the exponent is tempered.
class Allocation {
 public:
  /// @param model    with its first values, batch norms not folded
  /// @param samples  of the training split; options.rate.calibration of them are used
  Allocation(Model& model, const Dataset& samples, const TrainOptions& options);
  /// To be called once batch norms are folded.
  void weigh(Model& model);

  /// As land_untrained(), by importance; then batch norms are corrected for what was rounded.
  void land(Model& model, GenomicBottleneck& bottleneck, std::int64_t wanted) const;

  std::int64_t samples() const { return samples_.size(); }
  std::int64_t corrected_norms() const { return static_cast<std::int64_t>(norms_.size()); }

 private:
  TrainOptions options_;
  Dataset samples_;
  NormCorrection norms_;
  std::vector<double> factors_;
};

}  // namespace gbcompress
