#include "base/float16.h"

#include <bit>

namespace gbcompress {
namespace {

constexpr std::uint32_t kInfinity = 0x7F80'0000;

/// Drops the low `bits` bits, to nearest, ties to even. A carry runs into the exponent, as it must.
std::uint32_t round_off(std::uint32_t value, int bits) {
  const std::uint32_t odd = value >> bits & 1;
  return (value + (std::uint32_t{1} << (bits - 1)) - 1 + odd) >> bits;
}

}  // namespace

std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t size = bits & 0x7FFF'FFFF;
  std::uint32_t half = 0;
  if (size > kInfinity) {
    half = 0x7E00;                   // a quiet NaN
  } else if (size >= 0x477F'F000) {  // 65520, half-way between the largest half and 2^16
    half = 0x7C00;
  } else if (size >= 0x3880'0000) {  // 2^-14, the smallest normal half
    half = round_off(size - (std::uint32_t{112} << 23), 13);
  } else if (size >= 0x3300'0000) {  // 2^-25, half of the smallest half
    // A subnormal half counts units of 2^-24: the fraction with its hidden bit, shifted into place.
    const int shift = 126 - static_cast<int>(size >> 23);
    half = round_off((size & 0x7F'FFFF) | 0x80'0000, shift);
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t float_to_bfloat(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFF'FFFF) > kInfinity)
    return static_cast<std::uint16_t>(bits >> 31 << 15 | 0x7FC0);
  return static_cast<std::uint16_t>(round_off(bits, 16));
}

}  // namespace gbcompress
