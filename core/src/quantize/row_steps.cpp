#include "quantize/row_steps.h"

#include <algorithm>
#include <cmath>

#include "quantize/matrix.h"

namespace gbcompress {
namespace {

/// Errors of a row cost at least this share of the mean.
constexpr double kLeastShare = 0.01;

}  // namespace

RowSteps row_steps_by_cost(std::span<const double> shares, double power) {
  std::vector<double> octaves;
  double sum = 0;
  for (const double share : shares) {
    octaves.push_back(-power / 2 * std::log2(std::max(share, kLeastShare)));
    sum += octaves.back();
  }
  const auto rows = static_cast<double>(octaves.size());
  const double center = sum / rows;
  RowSteps steps;
  double cost = 0;
  for (std::size_t row = 0; row < octaves.size(); ++row) {
    const double units = std::nearbyint((octaves[row] - center) * kStepsPerOctave / kRowUnit);
    steps.offsets.push_back(kRowUnit * static_cast<std::int32_t>(units));
    cost += shares[row] * std::exp2(2 * units * kRowUnit / kStepsPerOctave);
  }
  if (std::ranges::all_of(steps.offsets, [](std::int32_t step) { return step == 0; })) return {};
  steps.cost = cost / rows;
  return steps;
}

}  // namespace gbcompress
