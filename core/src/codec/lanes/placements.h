#pragma once
/// Where the words of lanes come from that are due, for vectors that have no instruction for it.

#include <array>
#include <cstddef>
#include <cstdint>

namespace gbcompress::codec::lanes {

/// For every mask of lanes, where its words come from: the n-th lane takes the n-th word.
template <typename Place, std::size_t kMasks, std::size_t kPlaces>
struct Placement {
  alignas(64) std::array<std::array<Place, kPlaces>, kMasks> at;
};
inline constexpr auto kEight = [] {
  Placement<std::uint8_t, 256, 8> table{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::uint8_t n = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) table.at[mask][lane] = mask >> lane & 1 ? n++ : 0;
  }
  return table;
}();
/// The lanes of a mask in their order, as the last ones.
inline constexpr auto kLastOfEight = [] {
  Placement<std::uint8_t, 256, 8> table{};
  for (std::size_t mask = 0; mask < 256; ++mask)
    for (std::size_t lane = 8, place = 8; lane-- > 0;)
      if (mask >> lane & 1) table.at[mask][--place] = static_cast<std::uint8_t>(lane);
  return table;
}();
/// As places of bytes; those of 128 become zero.
inline constexpr auto kFour = [] {
  Placement<std::uint8_t, 16, 16> table{};
  for (std::size_t mask = 0; mask < 16; ++mask) {
    unsigned n = 0;
    for (std::size_t lane = 0; lane < 4; ++lane) {
      const bool due = mask >> lane & 1;
      for (unsigned byte = 0; byte < 4; ++byte)
        table.at[mask][4 * lane + byte] =
            static_cast<std::uint8_t>(due && byte < 2 ? 2 * n + byte : 128);
      n += due;
    }
  }
  return table;
}();

}  // namespace gbcompress::codec::lanes
