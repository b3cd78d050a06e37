#pragma once
/// Tables of profile `lanes`: 2^11 parts of the unit interval for the symbols of a class.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/lanes/classes.h"

namespace gbcompress::codec::lanes {

inline constexpr int kTableBits = 11;
inline constexpr std::uint32_t kWholeTable = 1u << kTableBits;
/// Symbols: escapes of even and of odd integers, then the integers -kSpan ... kSpan.
inline constexpr int kSpan = 126, kFirstInteger = 2, kSymbols = kFirstInteger + 2 * kSpan + 1;
constexpr int symbol_of(int integer) { return kFirstInteger + kSpan + integer; }

/// The symbol of an integer, of one without any the escape.
constexpr int symbol_or_escape(int integer) {
  return integer >= -kSpan && integer <= kSpan ? symbol_of(integer) : (integer & 1);
}

using Widths = std::array<std::uint16_t, kSymbols>;  ///< parts of each symbol, together 2^11
using Counts = std::array<std::uint64_t, kSymbols>;

/// Widths for symbols that were seen so often, at least 1 for both escapes. What is too rare for a
/// part has none: it becomes an escape.
Widths widths_for(const Counts& counts);

/// The tables of a set: one for each class below kTables, of dependent grids one for each
/// quantizer.
struct TableSet {
  bool dependent = false;
  std::vector<bool> used;      ///< [kTables, quantizers]
  std::vector<Widths> widths;  ///< [kTables, quantizers]

  explicit TableSet(bool dependent_grids = false)
      : dependent(dependent_grids), used(size()), widths(size()) {}
  int quantizers() const { return dependent ? 2 : 1; }
  std::size_t size() const { return static_cast<std::size_t>(kTables * quantizers()); }
};

/// An entry says what stands at a slot: bits 31 ... 23 the value in units, 22 the parity of the
/// integer, 21 ... 11 the width, 10 ... 0 slot - start. Values of escapes: kEscapeValue + parity +
/// 2 * quantizer.
inline constexpr int kEscapeValue = -256, kLastEscape = kEscapeValue + 3;
inline constexpr int kValuePlace = 23, kParityPlace = 22;

/// Units: integers; of dependent grids half steps, twice what an integer stands for.
/// [kTables, quantizers, 2^11] entries; tables that are not used hold escapes.
std::vector<std::uint32_t> make_entries(const TableSet& set);

}  // namespace gbcompress::codec::lanes
