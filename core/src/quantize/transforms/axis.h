#pragma once
/// Along which dimension of a tensor cosines take fewer bytes than the values.

#include <cstdint>
#include <span>
#include <vector>

namespace gbcompress {

/// Share of the bits that cosines save at least of waves, as in a Fourier basis.
inline constexpr double kWave = 0.5;

/// @param values          row-major
/// @param relative_error  about what the tensor may lose, squared error over squares
/// @param least_saved     share of the bits that they have to save
/// @return the dimension whose cosines save most at equal error, as a sample of lines tells; -1
///         where none saves enough, or where they would move zeros that are no part of a wave
int cosine_axis(std::span<const float> values, const std::vector<std::int64_t>& shape,
                double relative_error, double least_saved);

}  // namespace gbcompress
