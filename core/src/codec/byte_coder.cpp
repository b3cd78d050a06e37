#include "codec/byte_coder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/byte_reader.h"
#include "codec/rans.h"
#include "codec/widths.h"
#include "gbcompress/error.h"

namespace gbcompress::codec {
namespace {

constexpr std::size_t kSymbols = 256;
using Counts = std::array<std::uint32_t, kSymbols>;

[[noreturn]] void corrupt(const char* why) {
  throw Error(Errc::kCorrupt, std::string("coded bytes ") + why + "; get the file again");
}

Counts count(std::span<const std::byte> bytes) {
  // Four at a time: runs of one byte would wait for themselves.
  std::array<Counts, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j) ++parts[j][std::to_integer<std::size_t>(bytes[i + j])];
  for (; i < bytes.size(); ++i) ++parts[0][std::to_integer<std::size_t>(bytes[i])];
  for (std::size_t j = 1; j < 4; ++j)
    for (std::size_t s = 0; s < kSymbols; ++s) parts[0][s] += parts[j][s];
  return parts[0];
}

Counts widths_of(const Counts& counts, std::size_t total) {
  Counts widths{};
  set_widths(counts, total, widths);
  return widths;
}

void append_table(std::vector<std::byte>& to, const Counts& widths) {
  std::size_t first = 0, last = kSymbols - 1;
  while (widths[first] == 0) ++first;
  while (widths[last] == 0) --last;
  to.push_back(static_cast<std::byte>(first));
  to.push_back(static_cast<std::byte>(last - first));
  for (std::size_t s = first; s <= last; ++s)
    append_number(to, static_cast<std::uint16_t>(widths[s]));
}

void encode_chunk(std::span<const std::byte> bytes, std::vector<std::byte>& to) {
  const Counts widths = widths_of(count(bytes), bytes.size());
  append_table(to, widths);
  Counts starts{};
  for (std::size_t s = 1; s < kSymbols; ++s) starts[s] = starts[s - 1] + widths[s - 1];
  std::array<std::uint32_t, kLanes> states;
  states.fill(kLeastState);
  std::vector<std::uint16_t> words(bytes.size());  // from the end: the last one is read last
  std::size_t at = words.size();
  for (std::size_t i = bytes.size(); i-- > 0;) {
    const auto symbol = std::to_integer<std::size_t>(bytes[i]);
    std::uint32_t& state = states[i % kLanes];
    const std::uint32_t width = widths[symbol];
    if (state >= std::uint64_t{width} << 20) {
      words[--at] = static_cast<std::uint16_t>(state);
      state >>= 16;
    }
    const std::uint32_t quotient = state / width;
    state = (quotient << kProbabilityBits) + (state - quotient * width) + starts[symbol];
  }
  append_number(to, static_cast<std::uint32_t>(2 * (words.size() - at)));
  for (const std::uint32_t state : states) append_number(to, state);
  const auto content = std::as_bytes(std::span(words).subspan(at));
  to.insert(to.end(), content.begin(), content.end());
}

/// What a slot of the unit interval says.
struct Slot {
  std::uint16_t width, offset;  ///< of the part; of the slot in it
  std::uint8_t symbol;
};

/// Reads chunk after chunk.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> stream) : in_(stream, "a stream of coded bytes") {}

  void chunk(std::span<std::byte> bytes) {
    read_table();
    const auto size = in_.read<std::uint32_t>();
    if (size % 2 != 0) corrupt("have a chunk of half a word");
    std::array<std::uint32_t, kLanes> states;
    for (std::uint32_t& state : states) {
      state = in_.read<std::uint32_t>();
      if (state < kLeastState) corrupt("begin as none do");
    }
    decode(states, in_.take(size), bytes);
    for (const std::uint32_t state : states)
      if (state != kLeastState) corrupt("do not end as they began");
  }
  bool at_end() const { return in_.remaining() == 0; }

 private:
  void read_table() {
    const std::size_t first = in_.read<std::uint8_t>();
    const std::size_t last = first + in_.read<std::uint8_t>();
    if (last >= kSymbols) corrupt("have a table of more than 256");
    std::size_t start = 0;
    for (std::size_t s = first; s <= last; ++s) {
      const std::size_t width = in_.read<std::uint16_t>();
      if (width > kWhole - start) corrupt("have a table beyond its end");
      for (std::size_t i = 0; i < width; ++i)
        slots_[start + i] = {static_cast<std::uint16_t>(width), static_cast<std::uint16_t>(i),
                             static_cast<std::uint8_t>(s)};
      start += width;
    }
    if (start != kWhole) corrupt("have a table with a hole");
  }

  void decode(std::array<std::uint32_t, kLanes>& states, std::span<const std::byte> words,
              std::span<std::byte> bytes) {
    const std::byte* next = words.data();
    const std::byte* const end = next + words.size();
    std::array<std::uint32_t, kLanes> x = states;
    const auto step = [&](std::size_t lane) {
      const Slot slot = slots_[x[lane] & (kWhole - 1)];
      x[lane] = slot.width * (x[lane] >> kProbabilityBits) + slot.offset;
      return static_cast<std::byte>(slot.symbol);
    };
    std::size_t i = 0;
    // Four symbols take at most four words.
    for (; i + kLanes <= bytes.size() && end - next >= 2 * kLanes; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        bytes[i + lane] = step(lane);
        std::uint16_t word;
        std::memcpy(&word, next, 2);
        const bool low = x[lane] < kLeastState;
        x[lane] = low ? x[lane] << 16 | word : x[lane];
        next += low ? 2 : 0;
      }
    for (; i < bytes.size(); ++i) {
      const std::size_t lane = i % kLanes;
      bytes[i] = step(lane);
      if (x[lane] >= kLeastState) continue;
      if (end - next < 2) corrupt("have a chunk that ends early");
      std::uint16_t word;
      std::memcpy(&word, next, 2);
      next += 2;
      x[lane] = x[lane] << 16 | word;
    }
    if (next != end) corrupt("have a chunk with bytes left over");
    states = x;
  }

  ByteReader in_;
  std::array<Slot, kWhole> slots_{};
};

}  // namespace

std::vector<std::byte> encode_bytes(std::span<const std::byte> bytes) {
  std::vector<std::byte> stream;
  for (std::size_t first = 0; first < bytes.size(); first += kChunk)
    encode_chunk(bytes.subspan(first, std::min(kChunk, bytes.size() - first)), stream);
  return stream;
}

double expected_size(std::span<const std::byte> bytes) {
  double size = 0;
  for (std::size_t first = 0; first < bytes.size(); first += kChunk) {
    const auto chunk = bytes.subspan(first, std::min(kChunk, bytes.size() - first));
    const Counts counts = count(chunk);
    double bits = 8 * (4.0 * kLanes + 6);
    for (const std::uint32_t n : counts)
      if (n > 0) bits += n * std::log2(static_cast<double>(chunk.size()) / n) + 16;
    size += bits / 8;
  }
  return size;
}

void decode_bytes(std::span<const std::byte> stream, std::span<std::byte> bytes) {
  Reader reader(stream);
  for (std::size_t first = 0; first < bytes.size(); first += kChunk)
    reader.chunk(bytes.subspan(first, std::min(kChunk, bytes.size() - first)));
  if (!reader.at_end()) corrupt("have bytes after the last one");
}

}  // namespace gbcompress::codec
