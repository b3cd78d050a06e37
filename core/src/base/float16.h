#pragma once
/// 16-bit floats, rounded to nearest with ties to even.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gbcompress {

/// IEEE binary16, exact. Without branches, so that loops become vectors.
inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t size = half & 0x7FFFU;
  constexpr std::uint32_t kRebase = std::uint32_t{112} << 23;
  const std::uint32_t normal = (size << 13) + (size >= 0x7C00U ? 2 * kRebase : kRebase);
  const auto small =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(size)) * 0x1p-24f);
  return std::bit_cast<float>((size < 0x400U ? small : normal) | (half & 0x8000U) << 16);
}
std::uint16_t float_to_half(float value) noexcept;    ///< infinity from 65520 on
std::uint16_t float_to_bfloat(float value) noexcept;  ///< the upper half of a binary32

/// Each as half_to_float(), faster. @param halves  little-endian, need not be aligned
void floats_of_halves(std::span<const std::byte> halves, float* floats);

}  // namespace gbcompress
