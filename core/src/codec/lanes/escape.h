#pragma once
/// What every level of a processor does alike, value by value: escapes, the inputs of steps and
/// words in their places.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "codec/lanes/decode_block.h"
#include "codec/lanes/tables.h"

namespace gbcompress::codec::lanes {

constexpr std::int32_t value_of(std::uint32_t entry) {
  return static_cast<std::int32_t>(entry) >> kValuePlace;
}
constexpr bool is_escape(std::uint32_t entry) { return value_of(entry) <= kLastEscape; }
/// Of an escape: whether it is of quantizer 1.
constexpr bool is_second(std::uint32_t entry) { return (value_of(entry) - kEscapeValue) & 2; }

/// The integer that stands for so many half steps, of the quantizer 1 an odd number or none.
constexpr std::int32_t integer_of(std::int32_t half_steps, std::uint32_t quantizer) {
  return (half_steps + static_cast<std::int32_t>(half_steps > 0 ? quantizer : 0)) >> 1;
}

/// Of units as numbers, which are exact: they are below 2^22.
inline void integers_of(std::span<const float> units, bool dependent, std::int32_t* integers) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto unit = static_cast<std::int32_t>(units[i]);
    integers[i] = dependent ? integer_of(unit, static_cast<std::uint32_t>(unit) & 1) : unit;
  }
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
inline void put_number(float* out, float number) { *out = number; }
inline void put_number(Bfloat16* out, float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  out->bits = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline void put_number(Float16* out, float number) { out->bits = float_to_half(number); }
template <typename Out>
void put_value(Out* out, std::int32_t integer, bool second, bool dependent, float scale) {
  put_number(out, number_of(integer, second, dependent, scale));
}

/// What a step of 64 values or fewer decodes with, where it lies in several lines.
struct StepInput {
  alignas(64) std::int32_t bases[kLaneCount], shifts[kLaneCount];
  alignas(64) float scales[kLaneCount];
  bool shifted;
};

/// The inputs of a step that begins at value `first` of the block.
inline void prepare_step(const BlockInput& block, std::int64_t first, std::int64_t count,
                         StepInput& step) {
  const int quantizers = block.dependent ? 2 : 1;
  const std::int8_t* line = block.lines + first / block.width;
  std::int64_t column = first % block.width;
  int highest = 0;
  for (std::int64_t lane = 0; lane < count; ++line, column = 0) {
    const std::int64_t end = std::min(count, lane + block.width - column);
    const std::int8_t* const columns = block.columns ? block.columns + column - lane : nullptr;
    for (; lane < end; ++lane) {
      const int cls = std::clamp(*line + (columns ? columns[lane] : 0), 0, kClasses - 1);
      highest = std::max(highest, cls);
      step.bases[lane] = (table_of(cls) * quantizers) << kTableBits;
      step.shifts[lane] = shift_of(cls);
    }
  }
  step.shifted = highest >= kTables;
  for (std::int64_t lane = count; lane < kLaneCount; ++lane)
    step.bases[lane] = step.shifts[lane] = 0;
  std::fill(step.scales, step.scales + kLaneCount, block.scale);
  if (!block.row_scales) return;
  std::int64_t row = (block.first + first) / block.row_size;
  std::int64_t left = (row + 1) * block.row_size - (block.first + first);
  for (std::int64_t lane = 0; lane < count; ++lane) {
    step.scales[lane] = block.row_scales[row];
    if (--left == 0) {
      ++row;
      left = block.row_size;
    }
  }
}

}  // namespace gbcompress::codec::lanes
