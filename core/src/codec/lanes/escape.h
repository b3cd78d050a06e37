#pragma once
/// What every level of a processor does alike, value by value: escapes and words in their places.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/tables.h"

namespace gbcompress::codec::lanes {

constexpr std::int32_t value_of(std::uint32_t entry) {
  return static_cast<std::int32_t>(entry) >> kValuePlace;
}
constexpr bool is_escape(std::uint32_t entry) { return value_of(entry) <= kLastEscape; }
/// Of an escape: whether it is of quantizer 1.
constexpr bool is_second(std::uint32_t entry) { return (value_of(entry) - kEscapeValue) & 2; }

/// The integer that stands for so many half steps.
constexpr std::int32_t integer_of(std::int32_t half_steps, std::uint32_t quantizer) {
  return (half_steps + static_cast<std::int32_t>(half_steps > 0 ? quantizer : 0)) >> 1;
}

/// The integers of escapes, in order.
struct Escapes {
  const std::byte* next;
  const std::byte* end;

  /// @param entry  of the escape
  /// @return false where there is none, or it is none of this entry
  bool take(std::uint32_t entry, unsigned shift, std::int32_t& integer) {
    if ((entry >> kTableBits & (kWholeTable - 1)) == 0) return false;  // a table that is not used
    std::uint32_t code = 0;
    for (unsigned place = 0; place < 28; place += 7) {
      if (next == end) return false;
      const auto byte = std::to_integer<std::uint32_t>(*next++);
      code |= (byte & 127) << place;
      if (byte >= 128) continue;
      if (byte == 0 && place > 0) return false;
      integer = static_cast<std::int32_t>(code >> 1 ^ (0u - (code & 1)));
      const std::int32_t most = kMaxMagnitude >> shift;
      if (integer > most || integer < -most - 1) return false;
      if (shift == 0 && integer < -most) return false;
      const auto parity = static_cast<std::uint32_t>(integer) & 1;
      return parity == (entry >> kParityPlace & 1);
    }
    return false;
  }
};

inline void put_value(std::int32_t* out, std::int32_t integer, bool, bool, float) {
  *out = integer;
}
inline float number_of(std::int32_t integer, bool second, bool dependent, float scale) {
  const std::int32_t sign = (integer > 0) - (integer < 0);
  const std::int32_t units = dependent ? 2 * integer - (second ? sign : 0) : integer;
  return static_cast<float>(units) * scale;
}
inline void put_value(float* out, std::int32_t integer, bool second, bool dependent, float scale) {
  *out = number_of(integer, second, dependent, scale);
}
inline void put_value(Bfloat16* out, std::int32_t integer, bool second, bool dependent,
                      float scale) {
  std::uint32_t bits;
  const float number = number_of(integer, second, dependent, scale);
  std::memcpy(&bits, &number, sizeof bits);
  out->bits = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// table_of() and shift_of() of every class.
template <int (*kFunction)(int)>
struct OfClasses {
  std::array<std::int32_t, kClasses> at = [] {
    std::array<std::int32_t, kClasses> values{};
    for (int cls = 0; cls < kClasses; ++cls) values[static_cast<std::size_t>(cls)] = kFunction(cls);
    return values;
  }();
};
inline constexpr OfClasses<&table_of> kTableOf;
inline constexpr OfClasses<&shift_of> kShiftOf;

/// For every mask of lanes, where its words come from: the n-th lane takes the n-th word.
template <typename Place, std::size_t kMasks, std::size_t kPlaces>
struct Placement {
  alignas(64) std::array<std::array<Place, kPlaces>, kMasks> at;
};
inline constexpr auto kEight = [] {
  Placement<std::int32_t, 256, 8> table{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::int32_t n = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) table.at[mask][lane] = mask >> lane & 1 ? n++ : 0;
  }
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
