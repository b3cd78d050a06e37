#include "bottleneck/rate_schedule.h"

#include <algorithm>
#include <cmath>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// The rate weight rises over this part of the run: first the task is learned.
constexpr double kRamp = 0.5;
/// From here on a weight's bits are those of the coder's contexts, in a run that begins without a
/// rate weight; one that continues another's integers has them from the start.
constexpr double kContextsFrom = 0.3;
/// Refreshes of the entropy model in a run; steps between two of them for an unknown length.
constexpr std::int64_t kRefreshes = 100, kStepsBetweenRefreshes = 50;
/// With a target size lambda begins lower, since too large is worse than too small, and is adapted
/// once the file has shrunk to the size that lambda leads to. Bytes are about inversely
/// proportional to the root of lambda, so while lambda rises the file is larger than at the end by
/// that factor. At the end, where weights no longer change, lambda is constant.
constexpr double kFirstShare = 1.0 / 3, kSteerFrom = 0.15, kSteerTo = 0.95;
/// Training aims a little below the target size: integers that are cut down afterwards cost more
/// quality than trained ones.
constexpr double kAim = 0.975;
/// From here on weights that became zero stay zero.
constexpr double kSettled = 0.6;
/// The share of the distance, in the logarithm, by which a refresh changes lambda.
constexpr double kGain = 0.5, kLargestChange = 1.35;
/// The same for step sizes, if the file is too small: a smaller lambda does not revive zeros.
constexpr double kStepGain = 0.25;

void require(bool holds, const char* message) {
  if (!holds) throw Error(Errc::kUsage, message);
}

}  // namespace

RateSchedule::RateSchedule(const RateOptions& options)
    : options_(options),
      interval_(options.steps > 0 ? std::max<std::int64_t>(options.steps / kRefreshes, 1)
                                  : kStepsBetweenRefreshes),
      lambda_(options.lambda * (options.max_bytes ? kFirstShare : 1)) {
  require(std::isfinite(options.lambda) && options.lambda >= 0,
          "the rate's lambda must be 0 or more");
  require(std::isfinite(options.first_lambda) && options.first_lambda >= 0,
          "the rate's first_lambda must be 0 or more");
  require(options.predictions >= 0 && options.steps >= 0,
          "the rate's predictions and steps must be 0 or more");
  require(!options.max_bytes || *options.max_bytes > 0, "the rate's max_bytes must be above 0");
  require(!options.max_bytes || options.steps > 0,
          "max_bytes needs the number of steps of the run, over which lambda is controlled; set "
          "rate.steps to the number of calls of step()");
}

double RateSchedule::part(std::int64_t step) const {
  return options_.steps > 0 ? static_cast<double>(step) / static_cast<double>(options_.steps) : 1;
}

double RateSchedule::ramp(std::int64_t step) const { return std::min(1.0, part(step + 1) / kRamp); }

bool RateSchedule::refreshes(std::int64_t step) const {
  return step % interval_ == 0 && (options_.steps == 0 || step < options_.steps);
}

bool RateSchedule::contexts(std::int64_t step) const {
  return options_.first_lambda > 0 || part(step) >= kContextsFrom;
}

bool RateSchedule::steers(std::int64_t step) const {
  return options_.max_bytes && refreshes(step) && part(step) >= kSteerFrom &&
         part(step) <= kSteerTo;
}

double RateSchedule::steer(std::int64_t step, std::int64_t file_bytes) {
  const double wanted = kAim * static_cast<double>(*options_.max_bytes) / std::sqrt(ramp(step));
  const double ratio = static_cast<double>(file_bytes) / wanted;
  lambda_ *= std::clamp(std::pow(ratio, kGain), 1 / kLargestChange, kLargestChange);
  return part(step) >= kSettled && ratio < 1 ? std::pow(ratio, kStepGain) : 1;
}

double RateSchedule::loss_per_bit(std::int64_t step) const {
  const double first = options_.first_lambda;
  if (lambda_ == 0 && first == 0) return 0;
  require(
      options_.predictions > 0,
      "the rate weight is lambda over the number of predictions; set rate.predictions to the "
      "number of labels in the training data that the loss is a mean over, or rate.lambda to 0");
  return (first + (lambda_ - first) * ramp(step)) / static_cast<double>(options_.predictions);
}

void RateSchedule::resume(std::int64_t step, double loss_per_bit) {
  if (!options_.max_bytes) return;  // it depends on the step alone
  const double first = options_.first_lambda;
  lambda_ = first + (loss_per_bit * static_cast<double>(options_.predictions) - first) / ramp(step);
}

}  // namespace gbcompress
