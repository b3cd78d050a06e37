#pragma once
/// Blocks of 64 neighboring elements, as bits: which elements are of which class, and which differ.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gbcompress::codec::delta {

inline constexpr std::size_t kMostClasses = 8;
inline constexpr std::size_t kBlock = 64;  ///< elements that are looked at together
/// Blocks that one call looks at, for callers that keep the results on the stack.
inline constexpr std::size_t kBlocksAtOnce = 32;

/// For each class, a bit for each element of a block, set for those of the class, and their number.
struct BlockClasses {
  std::array<std::uint64_t, kMostClasses> masks;
  std::array<std::uint8_t, kMostClasses> counts;
};

/// Of whole blocks. The sign bit of an element does not count.
/// @param elements       little-endian
/// @param element_bytes  1, 2, 4 or 8
/// @param limits         the least magnitude of each class but the lowest, ascending; above 0
/// @param blocks         one for each kBlock elements
void classify(const std::byte* elements, int element_bytes, std::span<const std::uint64_t> limits,
              std::span<BlockClasses> blocks);

/// A bit for each element of whole blocks, set where both differ.
/// @param masks  one for each kBlock elements
void compare(const std::byte* a, const std::byte* b, int element_bytes,
             std::span<std::uint64_t> masks);

}  // namespace gbcompress::codec::delta
