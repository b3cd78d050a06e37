#pragma once
/// The factor of which all values of a block are small multiples.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

inline constexpr std::int64_t kMostMultiple = 255;

/// A float32 s so that each magnitude is an integer of at most kMostMultiple times s, multiplied as
/// float32 and rounded to the element type; of several the one of fewest bits.
/// @param magnitudes  ascending, distinct, above 0, of that type
std::optional<float> common_factor(std::span<const float> magnitudes, DType dtype);

/// The multiple of a common_factor() that rounds to `magnitude`.
std::int64_t multiple_of(float magnitude, float factor) noexcept;

/// The distinct magnitudes above 0, ascending; nothing where there are more than `most`, or values
/// that are not finite or below the least normal number of float32.
std::optional<std::vector<float>> distinct_magnitudes(std::span<const float> values,
                                                      std::size_t most);

}  // namespace gbcompress
