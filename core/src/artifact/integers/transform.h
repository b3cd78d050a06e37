#pragma once
/// The orthonormal cosine transform of a tensor along one dimension
/// (docs/reference/artifact-integers.md, "Cosines"): smooth axes need few coefficients.

#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"

namespace GBC_INTERNAL gbcompress {

/// Sides that are transformed.
inline constexpr std::int64_t kLeastSide = 2, kMostSide = 2048;

/// Whether a tensor of that shape may be transformed along dimension `axis`.
bool has_transform(const std::vector<std::int64_t>& shape, int axis) noexcept;

/// @param values  row-major; squared errors of the coefficients are those of the values
/// @return coefficients in the same places, the slowest wave first
std::vector<float> to_cosines(std::span<const float> values, const std::vector<std::int64_t>& shape,
                              int axis);
/// The same bits on every machine.
std::vector<float> from_cosines(std::span<const float> coefficients,
                                const std::vector<std::int64_t>& shape, int axis);

/// coded_floats() of a tensor of that shape, along whose axis, if it has one, cosines are summed.
std::vector<float> tensor_floats(const CodedValues& values, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
