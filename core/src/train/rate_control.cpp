#include "train/rate_control.h"

#include <algorithm>
#include <cmath>

namespace gbcompress {
namespace {

/// The price rises over this part of the run: first the task is learnt.
constexpr double kRamp = 0.5;
/// From here on a number's bits are those of the coder's contexts.
constexpr double kContextsFrom = 0.3;
/// Looks at the integers in a run.
constexpr std::int64_t kLooks = 100;
/// Where a size is wanted the price begins lower, since too dear is worse than too cheap, and is
/// steered as soon as the file has come down to what the price makes of it. Files shrink about with
/// the root of the price, so while that still rises they are as much larger than they will be. It
/// is left alone at the end, where numbers no longer move.
constexpr double kFirstPrice = 1.0 / 3, kSteerFrom = 0.15, kSteerTo = 0.95;
/// From here on nothing that became zero comes back by itself.
constexpr double kSettled = 0.6;
/// How much of the distance, in the logarithm, goes into the price at a look.
constexpr double kGain = 0.5, kLargestChange = 1.35;
/// The same for steps, where the file is too small: a price that falls makes no number of a zero.
constexpr double kStepGain = 0.25;

}  // namespace

RateControl::RateControl(const RateOptions& options, std::int64_t samples, std::int64_t steps)
    : options_(options),
      samples_(static_cast<double>(std::max<std::int64_t>(samples, 1))),
      steps_(static_cast<double>(std::max<std::int64_t>(steps, 1))),
      interval_(std::max<std::int64_t>(steps / kLooks, 1)) {}

bool RateControl::steers() const { return options_.max_bytes && options_.file_bytes; }

double RateControl::ramp(std::int64_t step) const {
  return std::min(1.0, static_cast<double>(step + 1) / (kRamp * steps_));
}

void RateControl::before_step(std::int64_t step, GenomicBottleneck& bottleneck) {
  // A run that is taken up again finds the price in the bottleneck's state.
  if (lambda_ == 0 && step > 0) lambda_ = bottleneck.bit_price() * samples_ / ramp(step - 1);
  if (lambda_ <= 0) lambda_ = options_.lambda * (steers() ? kFirstPrice : 1);
  if (step % interval_ == 0) {
    const double done = static_cast<double>(step) / steps_;
    bottleneck.expect(done >= kContextsFrom);
    if (steers() && done >= kSteerFrom && done <= kSteerTo) {
      const double now = static_cast<double>(options_.file_bytes(bottleneck));
      const double wanted = static_cast<double>(*options_.max_bytes) / std::sqrt(ramp(step));
      const double ratio = now / wanted;
      lambda_ *= std::clamp(std::pow(ratio, kGain), 1 / kLargestChange, kLargestChange);
      if (done >= kSettled && ratio < 1) bottleneck.scale_steps(std::pow(ratio, kStepGain));
    }
  }
  bottleneck.set_bit_price(lambda_ * ramp(step) / samples_);
}

}  // namespace gbcompress
