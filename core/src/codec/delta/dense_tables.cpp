#include "codec/delta/dense_tables.h"

#include <numeric>

#include "codec/widths.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {
namespace {

/// Of the number of symbols of a table, and of the bit length of a width.
constexpr int kCountBits = 6, kWidthBits = 4;

}  // namespace

DenseCounts dense_widths(const DenseCounts& counts) {
  DenseCounts widths{};
  for (unsigned t = 0; t < kTables; ++t) {
    const auto own = std::span(counts).subspan(t * kSymbols, kSymbols);
    const auto total = std::accumulate(own.begin(), own.end(), std::uint64_t{0});
    if (total > 0) set_widths(own, total, std::span(widths).subspan(t * kSymbols, kSymbols));
  }
  return widths;
}

void put_tables(BitWriter& out, const DenseCounts& widths) {
  for (unsigned t = 0; t < kTables; ++t) {
    const auto table = std::span(widths).subspan(t * kSymbols, kSymbols);
    unsigned count = kSymbols;
    while (count > 0 && table[count - 1] == 0) --count;
    out.put(count, kCountBits);
    for (const std::uint32_t width : table.first(count)) {
      const int length = std::bit_width(width);
      out.put(static_cast<std::uint64_t>(length), kWidthBits);
      if (length > 1) out.put(width & ((1u << (length - 1)) - 1), length - 1);
    }
  }
}

DenseSlots get_tables(BitReader& in) {
  DenseSlots slots;
  slots.own.reserve(kTables + 1);
  SlotTable& none = slots.own.emplace_back();
  for (std::uint32_t i = 0; i < kWhole; ++i) none[i] = i << 12 | (kWhole - 1);
  for (const std::uint32_t*& found : slots.table) {
    const auto count = static_cast<unsigned>(in.take(kCountBits));
    found = none.data();
    if (count == 0) continue;
    SlotTable& table = slots.own.emplace_back();
    found = table.data();
    std::uint32_t start = 0;
    for (unsigned s = 0; s < count; ++s) {
      const auto length = static_cast<int>(in.take(kWidthBits));
      auto width = static_cast<std::uint32_t>(length);
      if (length > 1) width = 1u << (length - 1) | static_cast<std::uint32_t>(in.take(length - 1));
      if (s >= kSymbols || width > kWhole - start)
        throw Error(Errc::kCorrupt,
                    "a dense change has a table beyond its end; get the file again");
      for (std::uint32_t i = 0; i < width; ++i) table[start + i] = s << 24 | i << 12 | (width - 1);
      start += width;
    }
    if (start != kWhole)
      throw Error(Errc::kCorrupt, "a dense change has a table with a hole; get the file again");
  }
  return slots;
}

}  // namespace gbcompress::codec::delta
