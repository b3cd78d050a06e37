#pragma once
/// The cheapest paths of dependent quantization, for many bands of numbers side by side.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gbcompress::codec {

/// A scale class c stands for a mean magnitude of 2^(c / 4) steps.
inline constexpr int kLeastScaleClass = -16, kMostScaleClass = 16;
/// The class of numbers that are 0: no other integer is chosen for them.
inline constexpr int kZeroScaleClass = kMostScaleClass + 1;
inline constexpr std::int32_t kNeverChosen = 1 << 20;  ///< what other integers cost there
inline constexpr int kCostMagnitudes = 64;             ///< larger ones cost as much as the largest

/// What integers cost, in 1024ths of a squared step, by scale class, quantizer and magnitude.
using RateCosts = std::array<std::int32_t, std::size_t{kZeroScaleClass - kLeastScaleClass + 1} * 2 *
                                               kCostMagnitudes>;

/// Numbers that follow one another. Their path begins in state 0.
struct Band {
  const float* values;
  const std::int8_t* classes;  ///< kLeastScaleClass ... kZeroScaleClass, one a number
  std::int32_t* integers;      ///< what is chosen
  std::int64_t size;
  bool pinned;       ///< the path ends in state 0 too, where the next band begins
  double error = 0;  ///< found: sum of the squared errors
};

/// Chooses the integers: the least squared error plus rate costs. The same for any vector width.
void choose_paths(std::span<Band> bands, float step, const RateCosts& costs);

}  // namespace gbcompress::codec
