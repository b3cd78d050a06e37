#pragma once
/// Cosines that have the same bits everywhere.

#include <cstdint>

namespace gbcompress {

/// cos(pi * numerator / denominator): the angle is reduced exactly, in integers, to at most pi / 4;
/// then a fixed series in double, each operation rounded on its own (artifact-format.md). A
/// mathematics library would differ from machine to machine in the last bit.
/// @param numerator  0 or more, below 2^60; @param denominator  1 to 2^60
double cos_pi(std::int64_t numerator, std::int64_t denominator) noexcept;

}  // namespace gbcompress
