#pragma once
/// Profile `fast`: how values of one scale class are distributed, learned as they pass.

#include <cstdint>
#include <vector>

#include "codec/rans.h"

namespace gbcompress::codec {

/// Symbols 0 ... count - 1 and their parts of the unit interval.
class ClassTable {
 public:
  struct Part {
    std::uint16_t start, width;
  };
  /// @param weights  initial distribution; any positive sum
  ClassTable(const std::vector<std::uint32_t>& weights, bool decodes);

  const Part& part(int symbol) const { return parts_[symbol]; }
  void saw(int symbol) { ++seen_[symbol]; }
  /// For a decoder's inner loop, valid as long as the table: by slot the offset in its part (12
  /// bits), the width (12) and the symbol (8); and what has passed, by symbol.
  const std::uint32_t* lookup() const { return lookup_.data(); }
  std::uint32_t* seen() { return seen_.data(); }
  /// The symbol that is next.
  int read(RansReader& reader) {
    const std::uint32_t slot = reader.peek();
    const std::uint32_t entry = lookup_[slot];
    reader.take(entry >> 20, entry >> 8 & (kWhole - 1));
    const int symbol = static_cast<int>(entry & 255);
    ++seen_[symbol];
    return symbol;
  }
  /// Once a segment, for each table that was used: `fresh` symbols have passed since the last time.
  void end_segment(std::uint32_t fresh);

 private:
  void rebuild();

  std::vector<std::uint32_t> counts_;  ///< what the parts are made from
  std::vector<std::uint32_t> seen_;    ///< since then
  std::uint32_t total_ = 0;            ///< of counts_
  std::uint32_t fresh_ = 0;            ///< of seen_
  std::vector<Part> parts_;
  std::vector<std::uint32_t> lookup_;  ///< as lookup() says
};

}  // namespace gbcompress::codec
