#pragma once
/// Range asymmetric numeral systems of bytes: interleaved states of 32 bits, 12-bit probabilities.

#include <cstdint>

namespace gbcompress::codec {

inline constexpr int kProbabilityBits = 12;
inline constexpr std::uint32_t kWhole = 1u << kProbabilityBits;
inline constexpr std::uint32_t kLeastState = 1u << 16;

}  // namespace gbcompress::codec
