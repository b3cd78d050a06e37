#pragma once
/// The rate weight over a training run, and when the entropy model is refreshed. LibTorch-free.

#include <cstdint>

#include "base/internal.h"
#include "gbcompress/bottleneck_options.h"

namespace GBC_INTERNAL gbcompress {

class RateSchedule {
 public:
  /// @throws Error(kUsage) for options out of range
  explicit RateSchedule(const RateOptions& options);

  /// Whether the entropy model is refreshed before step `step`; with steers() the file is measured
  /// too.
  bool refreshes(std::int64_t step) const;
  /// Whether a weight's bits are those of the coder's contexts from this refresh on, or follow,
  /// much faster, from the mean magnitude of its tensor.
  bool contexts(std::int64_t step) const;
  bool steers(std::int64_t step) const;
  /// Adapts the rate weight to the present size of the file.
  /// @return what all steps are to be multiplied by
  double steer(std::int64_t step, std::int64_t file_bytes);

  /// Loss per bit at step `step`.
  double loss_per_bit(std::int64_t step) const;
  /// A resumed run has the rate weight of step `step` in its state.
  void resume(std::int64_t step, double loss_per_bit);
  /// The rate weight after its rise, which steer() adapts.
  double lambda() const noexcept { return lambda_; }
  void set_lambda(double lambda) noexcept { lambda_ = lambda; }

 private:
  double ramp(std::int64_t step) const;
  double part(std::int64_t step) const;

  RateOptions options_;
  std::int64_t interval_;
  double lambda_;
};

}  // namespace gbcompress
