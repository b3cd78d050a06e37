#pragma once
/// Bits and tables of zstd frames (RFC 8878, "Entropy Encoding").

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gbz {

using Bytes = std::span<const std::uint8_t>;

/// Bytes one after another.
class ForwardBytes {
 public:
  explicit ForwardBytes(Bytes bytes) : bytes_(bytes) {}
  /// -1 at the end.
  int byte() {
    if (bytes_.empty()) return -1;
    const int first = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return first;
  }
  bool skip(std::size_t count) {
    if (count > bytes_.size()) return false;
    bytes_ = bytes_.subspan(count);
    return true;
  }
  Bytes rest() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Bits from the end to the beginning; zeros lie before the first one.
class BackwardBits {
 public:
  explicit BackwardBits(Bytes bytes) : bytes_(bytes) {
    // The highest bit that is set ends the stream.
    if (bytes.empty() || bytes.back() == 0)
      left_ = -1;
    else
      left_ = static_cast<std::int64_t>(8 * bytes.size()) - 1 - std::countl_zero(bytes.back());
  }
  /// @param count  up to 31
  unsigned peek(unsigned count) const {
    if (count == 0 || left_ <= 0) return 0;
    const std::int64_t first = left_ - count;
    if (first < 0) return bits(0, static_cast<unsigned>(left_)) << -first;
    return bits(first, count);
  }
  void skip(unsigned count) { left_ -= count; }
  unsigned take(unsigned count) {
    const unsigned value = peek(count);
    skip(count);
    return value;
  }
  bool is_beyond() const { return left_ < 0; }
  bool is_at_end() const { return left_ == 0; }

 private:
  unsigned bits(std::int64_t first, unsigned count) const {
    const auto byte = static_cast<std::size_t>(first / 8);
    std::uint64_t word = 0;
    if (bytes_.size() - byte >= 8)
      std::memcpy(&word, bytes_.data() + byte, 8);
    else
      for (std::size_t i = byte; i < bytes_.size(); ++i)
        word |= std::uint64_t{bytes_[i]} << (8 * (i - byte));
    return static_cast<unsigned>(word >> (first % 8)) & ((1u << count) - 1);
  }

  Bytes bytes_;
  std::int64_t left_;  ///< bits that were not read
};

/// A table of finite state entropy coding, of 2^9 states at most.
class Fse {
 public:
  static constexpr unsigned kMostBits = 9;

  bool is_set() const { return set_; }
  unsigned bits() const { return bits_; }
  std::uint8_t symbol(unsigned state) const { return states_[state].symbol; }
  unsigned next(unsigned state, BackwardBits& stream) const {
    return states_[state].base + stream.take(states_[state].bits);
  }

  bool set_single(std::uint8_t symbol) {
    states_[0] = {symbol, 0, 0};
    bits_ = 0;
    return set_ = true;
  }

  /// @param counts  of each symbol, together 2^bits; -1: less than one state
  bool build(const std::int16_t* counts, std::size_t symbols, unsigned bits) {
    const std::uint32_t size = 1u << bits, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
    std::uint32_t high = size, at = 0;
    std::uint16_t seen[256];
    for (std::size_t s = 0; s < symbols; ++s) {
      seen[s] = static_cast<std::uint16_t>(counts[s] < 0 ? 1 : counts[s]);
      if (counts[s] < 0) states_[--high].symbol = static_cast<std::uint8_t>(s);
    }
    for (std::size_t s = 0; s < symbols; ++s)
      for (int i = 0; i < counts[s]; ++i) {
        states_[at].symbol = static_cast<std::uint8_t>(s);
        do at = (at + step) & mask;
        while (at >= high);
      }
    if (at != 0) return false;
    for (std::uint32_t i = 0; i < size; ++i) {
      FseState& state = states_[i];
      const std::uint32_t count = seen[state.symbol]++;
      state.bits =
          static_cast<std::uint8_t>(bits + 1 - static_cast<unsigned>(std::bit_width(count)));
      state.base = static_cast<std::uint16_t>((count << state.bits) - size);
    }
    bits_ = bits;
    return set_ = true;
  }

  /// Reads the counts. @return bytes that they took, 0 for what is no table
  std::size_t read(Bytes in, int most_symbol, unsigned most_bits) {
    std::size_t at = 0;
    const auto peek = [&](unsigned count) {
      std::uint32_t value = 0;
      for (unsigned i = 0; i < count; ++i)
        if ((at + i) / 8 < in.size()) value |= (in[(at + i) / 8] >> ((at + i) % 8) & 1u) << i;
      return value;
    };
    const unsigned bits = peek(4) + 5;
    at = 4;
    if (bits > most_bits) return 0;
    std::int16_t counts[256];
    std::size_t symbols = 0;
    for (std::int32_t left = 1 << bits; left > 0;) {
      if (symbols > static_cast<std::size_t>(most_symbol)) return 0;
      const auto width = static_cast<unsigned>(std::bit_width(static_cast<unsigned>(left) + 1));
      std::uint32_t value = peek(width);
      const std::uint32_t low = (1u << (width - 1)) - 1;
      const std::uint32_t short_ones = (1u << width) - 2 - static_cast<std::uint32_t>(left);
      if ((value & low) < short_ones) {
        value &= low;
        at += width - 1;
      } else {
        if (value > low) value -= short_ones;
        at += width;
      }
      const auto count = static_cast<std::int16_t>(value) - 1;
      counts[symbols++] = static_cast<std::int16_t>(count);
      left -= count < 0 ? -count : count;
      if (left < 0) return 0;
      for (std::uint32_t more = count == 0 ? 3 : 0; more == 3;) {
        more = peek(2);
        at += 2;
        if (symbols + more > static_cast<std::size_t>(most_symbol) + 1) return 0;
        for (std::uint32_t i = 0; i < more; ++i) counts[symbols++] = 0;
      }
      if (at > 8 * in.size()) return 0;
    }
    return build(counts, symbols, bits) ? (at + 7) / 8 : 0;
  }

 private:
  struct FseState {
    std::uint8_t symbol, bits;
    std::uint16_t base;
  };
  FseState states_[1 << kMostBits];
  unsigned bits_ = 0;
  bool set_ = false;
};

/// The least length of a code, and how many bits are added to it.
struct Extent {
  std::uint32_t least;
  std::uint8_t bits;
};
inline constexpr Extent kLengthExtents[36] = {
    {0, 0},     {1, 0},      {2, 0},      {3, 0},     {4, 0},   {5, 0},     {6, 0},     {7, 0},
    {8, 0},     {9, 0},      {10, 0},     {11, 0},    {12, 0},  {13, 0},    {14, 0},    {15, 0},
    {16, 1},    {18, 1},     {20, 1},     {22, 1},    {24, 2},  {28, 2},    {32, 3},    {40, 3},
    {48, 4},    {64, 6},     {128, 7},    {256, 8},   {512, 9}, {1024, 10}, {2048, 11}, {4096, 12},
    {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}};
inline constexpr Extent kMatchExtents[53] = {
    {3, 0},     {4, 0},     {5, 0},      {6, 0},      {7, 0},     {8, 0},   {9, 0},     {10, 0},
    {11, 0},    {12, 0},    {13, 0},     {14, 0},     {15, 0},    {16, 0},  {17, 0},    {18, 0},
    {19, 0},    {20, 0},    {21, 0},     {22, 0},     {23, 0},    {24, 0},  {25, 0},    {26, 0},
    {27, 0},    {28, 0},    {29, 0},     {30, 0},     {31, 0},    {32, 0},  {33, 0},    {34, 0},
    {35, 1},    {37, 1},    {39, 1},     {41, 1},     {43, 2},    {47, 2},  {51, 3},    {59, 3},
    {67, 4},    {83, 4},    {99, 5},     {131, 7},    {259, 8},   {515, 9}, {1027, 10}, {2051, 11},
    {4099, 12}, {8195, 13}, {16387, 14}, {32771, 15}, {65539, 16}};

inline constexpr std::int16_t kUsualLengths[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2,  2,  2,  2,
                                                   2, 1, 1, 1, 2, 2, 2, 2, 2,  2,  2,  2,
                                                   2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
inline constexpr std::int16_t kUsualOffsets[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                                   1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
inline constexpr std::int16_t kUsualMatches[53] = {
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

struct FseKind {
  int most_symbol;
  unsigned most_bits;
  const std::int16_t* usual;
  std::size_t usual_count;
  unsigned usual_bits;
};
inline constexpr FseKind kLengthKind{35, 9, kUsualLengths, 36, 6};
inline constexpr FseKind kOffsetKind{31, 8, kUsualOffsets, 29, 5};
inline constexpr FseKind kMatchKind{52, 9, kUsualMatches, 53, 6};

}  // namespace gbz
