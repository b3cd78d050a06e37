#pragma once
/// 16-bit floats, rounded to nearest with ties to even.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gbcompress {

float half_to_float(std::uint16_t half) noexcept;     ///< IEEE binary16, exact
std::uint16_t float_to_half(float value) noexcept;    ///< infinity from 65520 on
std::uint16_t float_to_bfloat(float value) noexcept;  ///< the upper half of a binary32

/// Each as half_to_float(), faster. @param halves  little-endian, need not be aligned
void floats_of_halves(std::span<const std::byte> halves, float* floats);

}  // namespace gbcompress
