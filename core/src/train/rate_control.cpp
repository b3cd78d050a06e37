#include "train/rate_control.h"

#include <algorithm>
#include <cmath>

namespace gbcompress {
namespace {

/// The price rises over this part of the run: first the task is learnt.
constexpr double kRamp = 0.5;
/// From here on a weight's bits are those of the coder's contexts.
constexpr double kContextsFrom = 0.3;
/// Looks at the integers in a run.
constexpr std::int64_t kLooks = 50;
/// Bytes fall about with the root of the price, so that a gain of 2 would correct in one look if
/// the weights followed at once; the price is left alone at the end, where they no longer move.
constexpr double kGain = 0.5, kLargestChange = 1.25, kSteerFrom = 0.35, kSteerTo = 0.92;
constexpr double kStepGain = 0.25;

}  // namespace

RateControl::RateControl(const RateOptions& options, std::int64_t samples, std::int64_t steps)
    : options_(options),
      samples_(static_cast<double>(std::max<std::int64_t>(samples, 1))),
      steps_(static_cast<double>(std::max<std::int64_t>(steps, 1))),
      interval_(std::max<std::int64_t>(steps / kLooks, 1)) {}

double RateControl::ramp(std::int64_t step) const {
  return std::min(1.0, static_cast<double>(step + 1) / (kRamp * steps_));
}

void RateControl::before_step(std::int64_t step, GenomicBottleneck& bottleneck) {
  // A run that is taken up again finds the price in the bottleneck's state.
  if (lambda_ == 0 && step > 0) lambda_ = bottleneck.bit_price() * samples_ / ramp(step - 1);
  if (lambda_ <= 0) lambda_ = options_.lambda;
  if (step % interval_ == 0) {
    const double done = static_cast<double>(step) / steps_;
    bottleneck.expect(done >= kContextsFrom);
    if (options_.max_bytes && options_.file_bytes && done >= kSteerFrom && done <= kSteerTo) {
      // While the price still rises, the file is larger than it will be.
      const double wanted = static_cast<double>(*options_.max_bytes) / std::sqrt(ramp(step));
      const double now = static_cast<double>(options_.file_bytes(bottleneck));
      // Weights follow a price slowly: what is gone too far does not come back, so small changes.
      lambda_ *= std::clamp(std::pow(now / wanted, kGain), 1 / kLargestChange, kLargestChange);
      // A price that falls does not bring back what has become zero; finer steps do.
      if (now < wanted) bottleneck.scale_steps(std::pow(now / wanted, kStepGain));
    }
  }
  bottleneck.set_bit_price(lambda_ * ramp(step) / samples_);
}

}  // namespace gbcompress
