#pragma once
/// Range asymmetric numeral systems of bytes: interleaved states of 32 bits, 12-bit probabilities.

#include <cstddef>
#include <cstdint>

namespace gbcompress::codec {

inline constexpr int kProbabilityBits = 12;
inline constexpr std::uint32_t kWhole = 1u << kProbabilityBits;
inline constexpr std::uint32_t kLeastState = 1u << 16;
inline constexpr int kLanes = 4;
inline constexpr std::size_t kChunk = std::size_t{1} << 18;  ///< symbols that share a table

}  // namespace gbcompress::codec
