#include "codec/lanes/tables.h"

#include <algorithm>
#include <numeric>

namespace gbcompress::codec::lanes {
namespace {

/// Gives parts to where they save most, or takes them where that costs least, until they are 2^11.
void settle(const std::array<std::uint64_t, kSymbols>& counts, Widths& widths) {
  std::uint32_t sum = std::accumulate(widths.begin(), widths.end(), 0u);
  while (sum != kWholeTable) {
    const bool give = sum < kWholeTable;
    // A part more is worth count * log((w + 1) / w), about count / (w + 1/2): compared as
    // fractions.
    std::size_t best = kSymbols;
    std::uint64_t best_count = 0, best_width = 1;
    for (std::size_t i = 0; i < kSymbols; ++i) {
      if (widths[i] == 0 || (!give && widths[i] == 1)) continue;
      const std::uint64_t width = 2u * widths[i] + (give ? 1 : -1);
      const std::uint64_t mine = counts[i] * best_width, its = best_count * width;
      if (best < kSymbols && (give ? mine <= its : mine >= its)) continue;
      best = i;
      best_count = counts[i];
      best_width = width;
    }
    widths[best] = static_cast<std::uint16_t>(widths[best] + (give ? 1 : -1));
    sum += give ? 1u : ~0u;
  }
}

}  // namespace

Widths widths_for(const Counts& counts) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  std::array<std::uint64_t, kSymbols> kept{};
  for (std::size_t i = 0; i < kSymbols; ++i) {
    const bool escape = i < kFirstInteger;
    const bool rare = 2 * counts[i] * kWholeTable < total;
    // The parity of an integer is that of its symbol: both kFirstInteger and kSpan are even.
    kept[escape || !rare ? i : i % 2] += counts[i];
  }
  Widths widths{};
  for (std::size_t i = 0; i < kSymbols; ++i)
    if (kept[i] > 0 || i < kFirstInteger)
      widths[i] = static_cast<std::uint16_t>(std::max<std::uint64_t>(
          1, (2 * kept[i] * kWholeTable + total) / std::max<std::uint64_t>(2 * total, 1)));
  settle(kept, widths);
  return widths;
}

std::vector<std::uint32_t> make_entries(const TableSet& set) {
  static_assert(kFirstInteger % 2 == 0 && kSpan % 2 == 0);
  std::vector<std::uint32_t> entries(set.size() * kWholeTable);
  auto entry = entries.begin();
  for (std::size_t t = 0; t < set.size(); ++t) {
    const int quantizer = set.dependent ? static_cast<int>(t % 2) : 0;
    const auto escape = static_cast<std::uint32_t>(kEscapeValue + 2 * quantizer);
    if (!set.used[t]) {
      entry = std::fill_n(entry, kWholeTable, escape << kValuePlace);
      continue;
    }
    for (int i = 0; i < kSymbols; ++i) {
      const std::uint32_t width = set.widths[t][static_cast<std::size_t>(i)];
      const auto parity = static_cast<std::uint32_t>(i % 2);
      const int integer = i - symbol_of(0), sign = (integer > 0) - (integer < 0);
      int value = integer;
      if (set.dependent) value = 2 * integer - quantizer * sign;
      const std::uint32_t stands =
          i < kFirstInteger ? escape + parity : static_cast<std::uint32_t>(value);
      const std::uint32_t high =
          stands << kValuePlace | parity << kParityPlace | width << kTableBits;
      for (std::uint32_t j = 0; j < width; ++j) *entry++ = high | j;
    }
  }
  return entries;
}

}  // namespace gbcompress::codec::lanes
