#pragma once
/// 16-bit floats, rounded to nearest with ties to even.

#include <cstdint>

namespace gbcompress {

float half_to_float(std::uint16_t half) noexcept;     ///< IEEE binary16, exact
std::uint16_t float_to_half(float value) noexcept;    ///< infinity from 65520 on
std::uint16_t float_to_bfloat(float value) noexcept;  ///< the upper half of a binary32

}  // namespace gbcompress
