#pragma once
/// Upper bits of bytes, in groups of 4, 2 and 1 bits that share bytes (docs/reference/planes.md).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gbcompress {

/// Bits of `count` bytes, of which several lie in one byte of the group.
struct BitGroup {
  unsigned bits;      ///< of each byte: 4, 2 or 1
  unsigned place;     ///< of the lowest of them in its byte
  std::size_t count;  ///< of the bytes that they are of

  std::size_t bytes() const { return (count * bits + 7) / 8; }
  /// Calls visit(first, size, shift) for bytes [first, first + size), whose bits lie in the group's
  /// first bytes from bit `shift` on.
  template <typename Visit>
  void for_parts(const Visit& visit) const {
    unsigned shift = 0;
    for (std::size_t first = 0; first < count; first += bytes(), shift += bits)
      visit(first, std::min(bytes(), count - first), shift);
  }
};

/// Calls visit(group) for the groups of all bits above the `lowest` ones, in their order.
template <typename Visit>
void for_bit_groups(unsigned lowest, std::size_t count, const Visit& visit) {
  unsigned place = lowest;
  for (const unsigned bits : {4U, 2U, 1U}) {
    if (((8 - lowest) & bits) == 0) continue;
    visit(BitGroup{bits, place, count});
    place += bits;
  }
}

/// to[i] |= (from[i] >> down & (2^bits - 1)) << up, eight bytes at a time
/// @param bits  at most 8 - down and 8 - up
inline void add_bits(const std::byte* from, std::size_t count, unsigned bits, unsigned down,
                     unsigned up, std::byte* to) {
  const std::uint64_t mask = 0x0101010101010101ULL * ((1U << bits) - 1);
  std::size_t i = 0;
  for (; i + sizeof mask <= count; i += sizeof mask) {
    std::uint64_t read, sum;
    std::memcpy(&read, from + i, sizeof read);
    std::memcpy(&sum, to + i, sizeof sum);
    sum |= (read >> down & mask) << up;
    std::memcpy(to + i, &sum, sizeof sum);
  }
  for (; i < count; ++i)
    to[i] |= (from[i] >> down & static_cast<std::byte>((1U << bits) - 1)) << up;
}

}  // namespace gbcompress
