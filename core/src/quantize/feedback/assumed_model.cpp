#include "quantize/feedback/assumed_model.h"

#include <cmath>
#include <cstdlib>
#include <vector>

namespace gbcompress {
namespace {

/// Correlation of inputs one position apart; of others it is its power.
constexpr double kNeighbors = 0.9;
/// Squared mean over the mean square: 1 / pi for the positive half of a Gaussian number.
constexpr double kMeanShare = 0.3;
/// Columns of a piece, at most: what a piece loses beyond that is small beside what its columns
/// make up for, and the time grows with it.
constexpr std::int64_t kMostCols = 640;
constexpr double kDamp = 0.02;

std::int64_t taps_of(const LikelyInputs& inputs) {
  std::int64_t taps = inputs.kernel.empty() ? 0 : 1;
  for (const std::int64_t side : inputs.kernel) {
    if (side < 1 || side > kMostCols) return 0;
    taps *= side;
    if (taps > kMostCols) return 0;
  }
  return taps;
}

/// Steps along the sides of the kernel between two of its positions.
std::int64_t distance(const LikelyInputs& inputs, std::int64_t a, std::int64_t b) {
  std::int64_t steps = 0;
  for (auto side = inputs.kernel.rbegin(); side != inputs.kernel.rend(); ++side) {
    steps += std::abs(a % *side - b % *side);
    a /= *side;
    b /= *side;
  }
  return steps;
}

}  // namespace

std::optional<AssumedPieces> assumed_pieces(const LikelyInputs& inputs, std::int64_t cols) {
  const std::int64_t taps = taps_of(inputs);
  if (taps < 1 || cols < taps || cols % taps != 0) return {};
  const std::int64_t channels = cols / taps;
  for (std::int64_t of_piece = std::min(channels, kMostCols / taps); of_piece > 0; --of_piece)
    if (channels % of_piece == 0) {
      // Of what else may be negative, channels say nothing about each other.
      if (inputs.positive ? of_piece * taps < 2 : taps < 2) return {};
      return AssumedPieces{channels / of_piece, of_piece * taps};
    }
  return {};
}

std::shared_ptr<const UpperFactor> assumed_factor(const LikelyInputs& inputs, std::int64_t cols) {
  const std::int64_t taps = taps_of(inputs);
  const double mean = inputs.positive ? kMeanShare : 0;
  std::vector<double> moment(static_cast<std::size_t>(cols * cols));
  for (std::int64_t i = 0; i < cols; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      const bool same = i / taps == j / taps;  // channel
      const double alike =
          same ? std::pow(kNeighbors, static_cast<double>(distance(inputs, i % taps, j % taps)))
               : 0;
      moment[static_cast<std::size_t>(i * cols + j)] = mean + (1 - mean) * alike;
    }
  return std::make_shared<const UpperFactor>(std::span<const double>(moment), cols, kDamp);
}

}  // namespace gbcompress
