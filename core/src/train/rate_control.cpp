#include "train/rate_control.h"

#include <algorithm>

namespace gbcompress {
namespace {

/// The price rises over this part of the run: first the task is learnt.
constexpr double kRamp = 0.5;
/// From here on a number's bits are those of the coder's contexts, in a run that begins without a
/// price; one that goes on from another's integers asks the coder at once.
constexpr double kContextsFrom = 0.3;
/// Looks at the integers in a run.
constexpr std::int64_t kLooks = 100;

}  // namespace

RateControl::RateControl(const RateOptions& options, std::int64_t samples, std::int64_t steps)
    : options_(options),
      samples_(static_cast<double>(std::max<std::int64_t>(samples, 1))),
      steps_(static_cast<double>(std::max<std::int64_t>(steps, 1))),
      interval_(std::max<std::int64_t>(steps / kLooks, 1)) {}

void RateControl::before_step(std::int64_t step, GenomicBottleneck& bottleneck) const {
  const double first = options_.first_lambda;
  if (step % interval_ == 0)
    bottleneck.expect(first > 0 || static_cast<double>(step) / steps_ >= kContextsFrom);
  const double ramp = std::min(1.0, static_cast<double>(step + 1) / (kRamp * steps_));
  bottleneck.set_bit_price((first + (options_.lambda - first) * ramp) / samples_);
}

}  // namespace gbcompress
