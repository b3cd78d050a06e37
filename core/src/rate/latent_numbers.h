#pragma once
/// Arithmetic of latents over plain memory: first steps, steps from what an optimizer moves,
/// nearest integers, expected scales. LibTorch-free.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"
#include "base/segments.h"
#include "gnet/threaded_kernels.h"

namespace GBC_INTERNAL gbcompress {

/// Expected scales are kept in this range, in units of the step.
inline constexpr double kLeastExpected = 0.02, kLargestExpected = 1000;
/// The expected scale before anything is known, in steps.
inline constexpr double kFirstScale = 3;

/// Sum of f(numbers, index of their first) over the pieces of `numbers`, or the `longest` first
/// numbers of each. In double and in one order, whatever the number of threads.
template <typename F>
double sum_pieces(std::span<const float> numbers, const RangeRunner& run, const F& f,
                  std::int64_t longest = kPiece) {
  const auto n = static_cast<std::int64_t>(numbers.size());
  std::vector<double> sums(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
  run(static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * kPiece;
      const auto at = static_cast<std::size_t>(first);
      sums[static_cast<std::size_t>(i)] =
          f(numbers.subspan(at, static_cast<std::size_t>(std::min(longest, n - first))), at);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

/// The same of f(number as double).
template <typename F>
double sum_of(std::span<const float> numbers, const RangeRunner& run, const F& f) {
  return sum_pieces(numbers, run, [&](std::span<const float> piece, std::size_t) {
    double sum = 0;
    for (const float x : piece) sum += f(static_cast<double>(x));
    return sum;
  });
}

/// A runner without threads.
RangeRunner on_this_thread();

/// Standard deviation with n - 1; 0 of fewer than 2 numbers.
double spread_of(std::span<const float> numbers, const RangeRunner& run);
/// The first step of numbers of that deviation.
double first_step(double spread);

/// An optimizer moves the logarithm of a step over `speed`.
float log_of_step(double size, double speed);
/// k of step_size().
int step_of(float log_step, double speed);
/// log_step of the step times `factor`, but for `factor` below 1 no lower than the least step that
/// numbers of the magnitude `largest` have in a file.
float scaled_log_step(float log_step, double factor, double largest, double speed);

/// The integers nearest to numbers / step, halves to even. @param to  [numbers.size()]
void nearest_integers(std::span<const float> numbers, float step, std::int32_t* to);

/// 1 / expected scale for numbers of that mean magnitude, in units of the step.
float inverse_scale_of(double mean_magnitude);

/// Rounded to nearest, ties to even, in any number of lanes: adding this leaves no room for a
/// fraction. Beyond it numbers are too large for the coder anyway.
inline float whole(float x) {
  constexpr float kNoFraction = 0x1.8p23f;
  return x + kNoFraction - kNoFraction;
}

}  // namespace gbcompress
