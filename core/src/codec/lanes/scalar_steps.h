#pragma once
/// The steps of a block (docs/reference/lanes.md, "A step"), lane by lane, for processors without
/// the byte shuffles that the steps in vectors take words with.

#include <algorithm>
#include <cstring>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/escape.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec::lanes {

/// States of all lanes, and where words are taken from.
struct ScalarLanes {
  std::uint32_t states[kLaneCount], quantizers[kLaneCount];
  const std::byte* word;

  explicit ScalarLanes(const StripeCursor& cursor) : quantizers{}, word(cursor.word) {
    std::copy(cursor.states.begin(), cursor.states.end(), states);
  }
  void store(const Escapes& escapes, StripeCursor& cursor) const {
    std::copy(states, states + kLaneCount, cursor.states.begin());
    cursor.word = word;
    cursor.escape = escapes.next;
  }
};

/// A state below 2^16 takes the next word.
inline std::uint32_t with_word(std::uint32_t state, const std::byte*& from) {
  std::uint16_t next;
  std::memcpy(&next, from, sizeof next);
  const std::uint32_t due =
      state < (1u << 16);  // a number, because branches on it are mispredicted
  from += 2 * due;
  return state << (16 * due) | (next & (0u - due));
}

/// Takes the next symbol of a lane. @param base  its table's place in `entries`  @return its entry
inline std::uint32_t take_entry(const std::uint32_t* entries, std::uint32_t base,
                                std::uint32_t& state, const std::byte*& from) {
  constexpr std::uint32_t low = kWholeTable - 1;
  const std::uint32_t entry = entries[base + (state & low)];
  state = with_word((entry >> kTableBits & low) * (state >> kTableBits) + (entry & low), from);
  return entry;
}

inline std::uint32_t quantizer_after(std::uint32_t state, std::uint32_t parity) {
  return state >> 1 ^ ((0u - (state & 1)) & QuantizerState::kFeedback) ^
         ((0u - (parity & 1)) & QuantizerState::kParity);
}

inline void put_units(std::int32_t* out, std::int32_t units, bool dependent, float) {
  *out = dependent ? integer_of(units, static_cast<std::uint32_t>(units) & 1) : units;
}
template <typename Out>
void put_units(Out* out, std::int32_t units, bool, float scale) {
  put_number(out, static_cast<float>(units) * scale);
}

/// 64 values of a line without low bits. @param line  distance of the line's class in `entries`
template <typename Form, typename Out>
bool line_step(Form dependent, ScalarLanes& lanes, Escapes& escapes, const std::uint32_t* entries,
               const std::int32_t* columns, std::int32_t line, float scale, Out* out) {
  const std::int32_t top = ((kTables - 1) * (dependent ? 2 : 1)) << kTableBits;
  std::uint32_t taken[kLaneCount];
  std::int32_t least = 0;
  const std::byte* word = lanes.word;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    auto base = static_cast<std::uint32_t>(std::clamp(line + columns[lane], 0, top));
    const std::uint32_t quantizer = lanes.quantizers[lane];
    if (dependent) base += (quantizer & 1) << kTableBits;
    const std::uint32_t entry = take_entry(entries, base, lanes.states[lane], word);
    if (dependent) lanes.quantizers[lane] = quantizer_after(quantizer, entry >> kParityPlace);
    taken[lane] = entry;
    least = std::min(least, value_of(entry));
    put_units(out + lane, value_of(entry), dependent, scale);
  }
  lanes.word = word;
  if (least > kLastEscape) return true;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_escape(taken[lane])) continue;
    std::int32_t integer;
    if (!escapes.take(taken[lane], 0, integer)) return false;
    put_value(out + lane, integer, dependent && is_second(taken[lane]), dependent, scale);
  }
  return true;
}

/// Up to 64 values, each with a base and a scale of its own, some with low bits apart.
template <typename Form, typename Out>
bool any_step(Form dependent, ScalarLanes& lanes, Escapes& escapes, const std::uint32_t* entries,
              const StepInput& step, std::int64_t count, Out* out) {
  std::uint32_t taken[kLaneCount], lows[kLaneCount];
  for (std::int64_t lane = 0; lane < count; ++lane) {
    auto base = static_cast<std::uint32_t>(step.bases[lane]);
    if (dependent) base += (lanes.quantizers[lane] & 1) << kTableBits;
    taken[lane] = take_entry(entries, base, lanes.states[lane], lanes.word);
  }
  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::uint32_t state = lanes.states[lane];
    lows[lane] = state & ((1u << step.shifts[lane]) - 1);
    if (step.shifts[lane] != 0)
      lanes.states[lane] = with_word(state >> step.shifts[lane], lanes.word);
  }
  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::uint32_t entry = taken[lane], second = lanes.quantizers[lane] & 1;
    std::int32_t integer = dependent ? integer_of(value_of(entry), second) : value_of(entry);
    if (is_escape(entry) && !escapes.take(entry, static_cast<unsigned>(step.shifts[lane]), integer))
      return false;
    const std::uint32_t above = static_cast<std::uint32_t>(integer) << step.shifts[lane];
    integer = static_cast<std::int32_t>(above | lows[lane]);
    if (integer > kMaxMagnitude || integer < -kMaxMagnitude) return false;
    if (dependent)
      lanes.quantizers[lane] =
          quantizer_after(lanes.quantizers[lane], static_cast<std::uint32_t>(integer));
    put_value(out + lane, integer, second != 0, dependent, step.scales[lane]);
  }
  return true;
}

}  // namespace gbcompress::codec::lanes
