#pragma once
/// Numbers with a relative precision each, as integers that count down from the largest: the form
/// of vectors (biases, scales, statistics) without training.

#include <cstdint>
#include <span>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// Octaves below the largest number's that keep all bits of the mantissa; below they lose one each
/// octave, like the denormals of IEEE 754.
inline constexpr int kFloatOctaves = 12;
/// Magnitudes of the integers lie below it.
constexpr std::int32_t float_codes(int mantissa_bits) {
  return (kFloatOctaves + 2) << mantissa_bits;
}
/// Bounds of the largest number's exponent, so that it is a normal float32.
inline constexpr int kMinFloatExponent = -126, kMaxFloatExponent = 127;

/// Whether the largest of these magnitudes stays in those bounds, rounding included.
bool fits_short_floats(std::span<const float> values);

/// Every number rounded to `mantissa_bits` bits behind the leading one.
/// @param values         [grid], finite, not all 0, none above 2^kMaxFloatExponent after rounding
/// @param mantissa_bits  1 ... kMaxMantissaBits
/// @throws Error(kUsage) for others
CodedValues float_coded(const IntegerGrid& grid, std::span<const float> values, int mantissa_bits);

/// The float32 that integer k stands for.
/// @param k  magnitude below float_codes(mantissa_bits)
float float_of_code(std::int32_t k, int mantissa_bits, int exponent);

}  // namespace gbcompress
