// Parts of the unit interval for bytes, as an encoder chooses and writes them.
#include "codec/byte_coder.h"
#include "codec/rans.h"
#include "codec/widths.h"

namespace gbcompress::codec {

void count_bytes(std::span<const std::byte> bytes, ByteCounts& counts) {
  // Four histograms: increments of one counter in a row would depend on each other.
  std::array<ByteCounts, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j) ++parts[j][std::to_integer<std::size_t>(bytes[i + j])];
  for (; i < bytes.size(); ++i) ++parts[0][std::to_integer<std::size_t>(bytes[i])];
  for (const ByteCounts& part : parts)
    for (std::size_t s = 0; s < counts.size(); ++s) counts[s] += part[s];
}

ByteWidths byte_widths(std::span<const std::uint32_t, kByteValues> counts, std::uint64_t total) {
  std::array<std::uint32_t, kByteValues> wide{};
  set_widths(counts, total, wide);
  ByteWidths widths{};
  for (std::size_t value = 0; value < kByteValues; ++value) {
    if (wide[value] < kWhole) {
      widths[value] = static_cast<std::uint16_t>(wide[value] + widths[value]);
      continue;
    }
    // One value alone gives a part to another one.
    widths[value] = kWhole - 1;
    widths[value ^ 1] = 1;
  }
  return widths;
}

void append_widths(std::vector<std::byte>& to, const ByteWidths& widths) {
  std::size_t first = 0, last = kByteValues - 1;
  while (widths[first] == 0) ++first;
  while (widths[last] == 0) --last;
  to.push_back(static_cast<std::byte>(first));
  to.push_back(static_cast<std::byte>(last - first));
  for (std::size_t value = first; value <= last; ++value) {
    if (widths[value] >= 128) to.push_back(static_cast<std::byte>(128 | widths[value] >> 8));
    to.push_back(static_cast<std::byte>(widths[value]));
  }
}

}  // namespace gbcompress::codec
