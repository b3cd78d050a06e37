#pragma once
/// What the dense form makes of a difference: a symbol under one of some tables, and bits
/// (docs/reference/exact-deltas.md, "Dense").

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/delta/bits.h"
#include "codec/rans.h"

namespace gbcompress::codec::delta {

/// Levels that the lowest one is below the highest, and bits behind the point of a line's mean.
inline constexpr unsigned kMostShift = 24, kFractionBits = 6;
/// The half octave of the largest mean: of float64, some octaves above the highest level.
inline constexpr unsigned kMostScale = 175;
/// Tables: one for each context below kFolded; above, differences are bins, and two tables serve
/// each of kBases sizes of the base's element, in bins.
inline constexpr unsigned kFolded = 16, kBases = 4, kTables = kFolded + 2 * kBases;
/// Values up to kDirect have a symbol each, larger ones one for each sign and each length of what
/// is beyond it. Where values are bins of floats, three more stand for the base's element, for it
/// with the other sign, and for an element as it is.
inline constexpr unsigned kDirect = 20, kBeyond = 2 * kDirect + 1, kLongest = 8,
                          kSame = kBeyond + 2 * (kLongest + 1), kTurned = kSame + 1,
                          kAsItIs = kSame + 2, kSymbols = kSame + 3;
/// Streams of symbols that are decoded side by side.
inline constexpr int kDenseLanes = 8;

/// Bits that an element has beside its symbol, at most: a length, what is beyond, how far its level
/// falls, and low ones.
inline constexpr std::size_t kMostRaw = 6 + 63 + 16 + 12 + 64;

/// The bits that a value of a symbol above kDirect's has.
template <typename Writer>
void put_beyond(Writer& raw, std::int64_t value) {
  const std::uint64_t size =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const std::uint64_t beyond = size - kDirect - 1;
  const auto length = static_cast<unsigned>(std::bit_width(beyond));
  if (length >= kLongest) raw.put(length, 6);
  if (length > 1)
    put_long(raw, beyond & ((std::uint64_t{1} << (length - 1)) - 1), static_cast<int>(length) - 1);
}

inline unsigned symbol_beyond(std::int64_t value) {
  const std::uint64_t size =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const auto length = static_cast<unsigned>(std::bit_width(size - kDirect - 1));
  return kBeyond + 2 * std::min(length, kLongest) + (value < 0 ? 1 : 0);
}

template <typename Reader>
std::uint64_t get_beyond(Reader& raw, unsigned symbol) {
  const bool negative = (symbol - kBeyond) % 2 == 1;
  unsigned length = (symbol - kBeyond) / 2;
  if (length == kLongest) length = static_cast<unsigned>(raw.take(6));
  std::uint64_t beyond = length;
  if (length > 1)
    beyond = std::uint64_t{1} << (length - 1) | take_long(raw, static_cast<int>(length) - 1);
  const std::uint64_t size = beyond + kDirect + 1;
  return negative ? 0 - size : size;
}

/// How often each symbol occurs under each table.
using DenseCounts = std::array<std::uint32_t, kTables * kSymbols>;

/// Parts of the unit interval for each table that has counts; else none.
DenseCounts dense_widths(const DenseCounts& counts);
void put_tables(BitWriter& out, const DenseCounts& widths);

/// For each slot of the unit interval its symbol (8 bits), its place in the symbol's part (12) and
/// the part's width less 1 (12).
using SlotTable = std::array<std::uint32_t, kWhole>;
struct DenseSlots {
  std::vector<SlotTable> own;  ///< those of the stream, and one of symbol 0 alone
  std::array<const std::uint32_t*, kTables> table;
};

/// @return of kTables tables; those that the stream lacks have one symbol: 0
/// @throws Error(kCorrupt)
DenseSlots get_tables(BitReader& in);

}  // namespace gbcompress::codec::delta
