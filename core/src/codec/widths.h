#pragma once
/// Parts of the unit interval for symbols by how often they occur.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/rans.h"

namespace gbcompress::codec {

/// At least 1 for each symbol that there is, kWhole together.
/// @param total   sum of the counts, above 0
/// @param widths  as many, all 0
inline void set_widths(std::span<const std::uint32_t> counts, std::uint64_t total,
                       std::span<std::uint32_t> widths) {
  std::int64_t left = kWhole;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    const double share = static_cast<double>(counts[s]) / static_cast<double>(total);
    widths[s] = std::max(1u, static_cast<std::uint32_t>(std::lrint(share * kWhole)));
    left -= widths[s];
  }
  while (left != 0) {  // what rounding left or took, the widest first
    std::uint32_t& widest = *std::max_element(widths.begin(), widths.end());
    const std::int64_t most = left > 0 ? left : -std::int64_t{std::max(1u, widest / 16)};
    const std::int64_t change = left > 0 ? most : std::max(left, most);
    widest = static_cast<std::uint32_t>(widest + change);
    left -= change;
  }
}

}  // namespace gbcompress::codec
