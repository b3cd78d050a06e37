#pragma once
/// Scales and quants of a few values, as ggml's reference quantization finds them
/// (docs/reference/requantized.md). Quants are written as the symbols that blocks have.

#include <bit>
#include <cstdint>
#include <span>

#include "format/gguf/make_blocks.h"

namespace gbcompress::gguf {

/// Values stand for scale * quant + offset; of fit_offset() for scale * quant - offset.
struct PartFit {
  float scale = 0, offset = 0;
};

/// Values below that are all 0.
inline constexpr float kNoScale = 1e-15F;

/// Rounded to nearest, ties to even; 0 for magnitudes from 2^22 on and for what is no number.
inline int nearest_integer(float value) noexcept {
  if (!(value > -4194304.0F && value < 4194304.0F)) return 0;
  const float sum = value + 12582912.0F;  // 1.5 * 2^23: the fraction has no bits left
  return static_cast<int>(std::bit_cast<std::uint32_t>(sum) & 0x7fffff) - 0x400000;
}

/// Q8_0: the largest magnitude is 127.
PartFit fit_bytes(std::span<const float> values, std::uint8_t* symbols);
/// Q4_0, Q5_0: the value of largest magnitude is the least quant.
PartFit fit_largest(unsigned bits, Rounding rounding, std::span<const float> values,
                    std::uint8_t* symbols);
/// Q4_1, Q5_1: from the least value to the largest one.
PartFit fit_range(unsigned bits, Rounding rounding, std::span<const float> values,
                  std::uint8_t* symbols);

/// Q2_K, Q4_K, Q5_K: the best of some scales under weights of the values.
struct OffsetSearch {
  int most = 0;           ///< quant
  float first = 0;        ///< the first number of quants that is tried, less `most`
  int steps = 0;          ///< of a tenth; as many more numbers of quants
  bool absolute = false;  ///< weights are the values' magnitudes, and errors are not squared
};
PartFit fit_offset(const OffsetSearch& search, Rounding rounding, std::span<const float> values,
                   std::uint8_t* symbols);

/// Q3_K: quants are refined one by one. @return the scale
float fit_three_bits(Rounding rounding, std::span<const float> values, std::uint8_t* symbols);
/// Q6_K: the best of 19 scales. @return the scale
float fit_six_bits(Rounding rounding, std::span<const float> values, std::uint8_t* symbols);

}  // namespace gbcompress::gguf
