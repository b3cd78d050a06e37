#pragma once
/// Standard deviation of many values, in one fixed order of additions.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

namespace gbcompress {

/// Several sums, so that an addition need not wait for the one before.
inline constexpr std::size_t kDeviationSums = 8;

/// With n - 1; 0 below 2 values and where it is not finite.
/// @param pieces  calls its argument with all n values in order, in pieces each of which, but for
///                the last, holds a multiple of kDeviationSums; called twice
inline double deviation_of(
    std::int64_t n,
    const std::function<void(const std::function<void(std::span<const double>)>&)>& pieces) {
  if (n < 2) return 0;
  std::array<double, kDeviationSums> sums{}, squares{};
  pieces([&](std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % kDeviationSums] += values[i];
  });
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(n);
  pieces([&](std::span<const double> values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      squares[i % kDeviationSums] += (values[i] - mean) * (values[i] - mean);
  });
  const double deviation =
      std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(n - 1));
  return std::isfinite(deviation) ? deviation : 0;
}

}  // namespace gbcompress
