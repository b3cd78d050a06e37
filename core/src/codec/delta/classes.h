#pragma once
/// Classes of elements by their exponents, and where the elements of a class lie.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/delta/blocks.h"

namespace gbcompress::codec::delta {

/// The first level of each class but the lowest, which begins at level 1.
using Thresholds = std::vector<std::uint16_t>;

/// The classes that make gaps cheapest: runs of levels that are alike in how many elements changed.
/// @param all, changed  elements of each level; as many of both
Thresholds choose_classes(std::span<const std::uint64_t> all,
                          std::span<const std::uint64_t> changed);

/// What classify() takes for these classes.
std::vector<std::uint64_t> limits_of(const Thresholds& thresholds, int mantissa_bits);

/// Sets the classes of up to kBlocksAtOnce blocks, the last one of which may have fewer elements.
/// @param elements  of the blocks
/// @param limits    of limits_of()
/// @return how many blocks
std::size_t classify_some(std::span<const std::byte> elements, int element_bytes,
                          std::span<const std::uint64_t> limits,
                          std::span<BlockClasses, kBlocksAtOnce> blocks);

/// A bit for each element, block by block, set where both differ. Of as many bytes.
std::vector<std::uint64_t> differing_elements(std::span<const std::byte> base,
                                              std::span<const std::byte> now, int element_bytes);

}  // namespace gbcompress::codec::delta
