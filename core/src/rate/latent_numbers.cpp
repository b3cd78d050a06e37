#include "rate/latent_numbers.h"

#include <functional>

#include "gbcompress/codec.h"
#include "gbcompress/coded_values.h"

namespace gbcompress {
namespace {

/// The first step, as a part of the values' deviation; where all values are alike, by itself.
constexpr double kFirstStep = 0.2, kStepWithoutSpread = 0.02;

}  // namespace

RangeRunner on_this_thread() {
  return [](std::int64_t n, std::int64_t,
            const std::function<void(std::int64_t, std::int64_t)>& body) {
    if (n > 0) body(0, n);
  };
}

double spread_of(std::span<const float> numbers, const RangeRunner& run) {
  const auto n = static_cast<double>(numbers.size());
  if (n < 2) return 0;
  const double mean = sum_of(numbers, run, [](double x) { return x; }) / n;
  return std::sqrt(sum_of(numbers, run, [&](double x) { return (x - mean) * (x - mean); }) /
                   (n - 1));
}

double first_step(double spread) { return spread > 0 ? kFirstStep * spread : kStepWithoutSpread; }

float log_of_step(double size, double speed) { return static_cast<float>(std::log(size) / speed); }

int step_of(float log_step, double speed) {
  return nearest_step(std::exp(static_cast<float>(speed) * log_step));
}

float scaled_log_step(float log_step, double factor, double largest, double speed) {
  const float scaled = log_step + static_cast<float>(std::log(factor) / speed);
  if (factor >= 1) return scaled;
  // A step is rounded to one that files hold, half an index down at the most.
  const double least =
      std::log(std::max(largest / kMaxMagnitude, static_cast<double>(step_size(kMinStep)))) +
      std::log(2.0) / 16;
  return std::max(scaled, std::min(log_step, static_cast<float>(least / speed)));
}

void nearest_integers(std::span<const float> numbers, float step, std::int32_t* to) {
  const float inverse = 1 / step;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float scaled = numbers[i] * inverse;
    to[i] = static_cast<std::int32_t>(
        std::fabs(scaled) < 0x1p22f ? whole(scaled) : std::clamp(scaled, -0x1p30f, 0x1p30f));
  }
}

float inverse_scale_of(double mean_magnitude) {
  return static_cast<float>(1 / std::clamp(mean_magnitude, kLeastExpected, kLargestExpected));
}

}  // namespace gbcompress
