#pragma once
/// Elements along a line, predicted from the two before: progressions, sines and cosines,
/// exponentials, whose integers are what rounding leaves.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// Numbers of each line in a table: factor and offset as float32, and the first two elements. All
/// factors come first, then all offsets, all first and all second elements.
inline constexpr std::int64_t kLineNumbers = 4;

/// Whether lines of these positions and this stride make a tensor of so many elements of the type.
bool fits_lines(std::int64_t positions, std::int64_t stride, std::int64_t elements,
                DType dtype) noexcept;

/// Differences of elements in the order of the type's numbers from their predictions, 0 for the
/// first two of a line; nothing where one is beyond kMaxMagnitude.
/// @param numbers  [kLineNumbers, lines]
/// @param bytes    of the tensor
std::optional<std::vector<std::int32_t>> line_residuals(const LevelForm& form,
                                                        std::span<const std::uint64_t> numbers,
                                                        std::span<const std::byte> bytes);
/// The tensor's bytes.
std::vector<std::byte> from_line_residuals(const LevelForm& form,
                                           std::span<const std::uint64_t> numbers,
                                           std::span<const std::int32_t> residuals);

}  // namespace gbcompress
