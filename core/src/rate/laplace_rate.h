#pragma once
/// What integers cost under a Laplace distribution, and the way back from there to the numbers that
/// were rounded. LibTorch-free.

#include <cstdint>
#include <span>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Sums over the numbers of one call.
struct RateSums {
  double bits = 0;
  /// d(loss + weight * bits) / d log step, through rounding (straight-through) and through the
  /// rate.
  double log_step_gradient = 0;
};

/// With u = latent / step, r the integer nearest to u, e uniform in [-1/2, 1/2) and drawn from
/// `key` and `first + i` alone, and
///   bits = -log2 integral of the Laplace density of scale b over [u + e - 1/2, u + e + 1/2]:
///   gradient := gradient + weight * dbits/du / step,
/// that is, the task sees rounded numbers whose gradient passes straight through, the rate sees
/// numbers with uniform noise (Balle et al., arXiv 1611.01704).
/// @param latent         [n]
/// @param inverse_scale  [n], 1 / b in units of the step, b from 0.02 to 1000
/// @param gradient       [n], in: of the loss with respect to r * step; out: to `latent`
/// @param weight         of a bit, 0 or more
/// @param count_bits     without it RateSums::bits is 0, which saves half of the time; gradients
///                       are the same
RateSums laplace_rate(std::span<const float> latent, float step,
                      std::span<const float> inverse_scale, float weight, std::uint32_t key,
                      std::uint32_t first, std::span<float> gradient, bool count_bits = true);

/// rounded[i] := round(latent[i] / step) * step, halves to even.
void round_to_step(std::span<const float> latent, float step, float* rounded);

}  // namespace gbcompress
