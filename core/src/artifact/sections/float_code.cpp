#include "artifact/sections/float_code.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "gbcompress/error.h"

namespace gbcompress {

bool fits_short_floats(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest >= 0x1p-120f && largest < 0x1p127f;
}

CodedValues float_coded(const IntegerGrid& grid, std::span<const float> values, int mantissa_bits) {
  double largest = 0;
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  if (!(largest > 0) || !finite || mantissa_bits < 1 ||
      mantissa_bits > kMaxMantissaBits || static_cast<std::int64_t>(values.size()) != grid.size())
    throw Error(Errc::kUsage, "short floats need finite values that are not all 0");
  const auto unit = [&](int exponent) { return std::ldexp(1.0, exponent - mantissa_bits); };
  int exponent = std::ilogb(largest);
  // Rounding may carry into the next octave.
  if (std::nearbyint(largest / unit(exponent)) >= std::ldexp(1.0, mantissa_bits + 1)) ++exponent;
  if (exponent < kMinFloatExponent || exponent > kMaxFloatExponent)
    throw Error(Errc::kUsage, "values of that magnitude do not fit short floats");
  CodedValues result{.grid = grid, .step = exponent, .mantissa_bits = mantissa_bits};
  result.integers.reserve(values.size());
  const int least = exponent - kFloatOctaves;
  for (const float value : values) {
    const double magnitude = std::fabs(static_cast<double>(value));
    const int own = magnitude > 0 ? std::max(std::ilogb(magnitude), least) : least;
    const auto mantissa = static_cast<std::int32_t>(std::nearbyint(magnitude / unit(own)));
    // As IEEE 754 counts: a mantissa that carried is the first one of the next octave.
    const std::int32_t number = mantissa + ((own - least) << mantissa_bits);
    const std::int32_t code = number == 0 ? 0 : float_codes(mantissa_bits) - number;
    result.integers.push_back(std::signbit(value) ? -code : code);
  }
  return result;
}

float float_of_code(std::int32_t k, int mantissa_bits, int exponent) {
  if (k == 0) return 0;
  const std::int32_t number = float_codes(mantissa_bits) - std::abs(k);
  const std::int32_t octave = number >> mantissa_bits,
                     fraction = number & ((1 << mantissa_bits) - 1);
  const std::int32_t mantissa = octave == 0 ? fraction : fraction + (1 << mantissa_bits);
  const int power = exponent - kFloatOctaves + std::max(octave - 1, 0) - mantissa_bits;
  const auto magnitude = static_cast<float>(std::ldexp(static_cast<double>(mantissa), power));
  return k < 0 ? -magnitude : magnitude;
}

}  // namespace gbcompress
