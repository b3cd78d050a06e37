#pragma once
/// Bits of bytes that other bytes take up, eight bytes at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gbcompress {

/// to[i] |= (from[i] >> down & (2^bits - 1)) << up
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
