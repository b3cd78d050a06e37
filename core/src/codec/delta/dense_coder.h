#pragma once
/// The symbols of a dense change as words (docs/reference/exact-deltas.md, "Dense").

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "codec/delta/dense_tables.h"
#include "codec/rans.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {

/// Codes symbols backwards, without divisions.
class SymbolWriter {
 public:
  explicit SymbolWriter(const DenseCounts& widths) {
    std::uint32_t start = 0;
    for (unsigned i = 0; i < kTables * kSymbols; ++i, start += widths[i - 1]) {
      if (i % kSymbols == 0) start = 0;
      const std::uint64_t width = std::max(widths[i], 1u);
      parts_[i] = {((std::uint64_t{1} << kReciprocalBits) + width - 1) / width, widths[i], start};
    }
  }

  /// @param symbols  table * kSymbols + symbol of each
  std::vector<std::byte> write(std::span<const std::uint16_t> symbols) const {
    std::array<std::uint32_t, kDenseLanes> states;
    states.fill(kLeastState);
    std::vector<std::uint16_t> words(symbols.size() +
                                     1);  // from the end: the last one is read last
    std::size_t at = words.size();
    for (std::size_t i = symbols.size(); i-- > 0;) {
      const Part& part = parts_[symbols[i]];
      std::uint32_t& state = states[i % kDenseLanes];
      // Whether a word is due no processor foresees: no branch.
      const std::size_t due = state >= std::uint64_t{part.width} << 20;
      words[at - 1] = static_cast<std::uint16_t>(state);
      at -= due;
      state >>= 16 * due;
      // Exact: state < width * 2^20, and the reciprocal is less than 1 too large.
      const auto quotient = static_cast<std::uint32_t>(state * part.reciprocal >> kReciprocalBits);
      state = (quotient << kProbabilityBits) + (state - quotient * part.width) + part.start;
    }
    std::vector<std::byte> stream;
    for (const std::uint32_t state : states) append_number(stream, state);
    const auto content = std::as_bytes(std::span(words).subspan(at));
    stream.insert(stream.end(), content.begin(), content.end());
    return stream;
  }

 private:
  static constexpr int kReciprocalBits = 44;
  struct Part {
    std::uint64_t reciprocal;
    std::uint32_t width, start;
  };
  std::array<Part, kTables * kSymbols> parts_;
};

class SymbolReader {
 public:
  explicit SymbolReader(std::span<const std::byte> stream) {
    ByteReader in(stream, "a dense change");
    for (std::uint32_t& state : states_) {
      state = in.read<std::uint32_t>();
      if (state < kLeastState) refuse("begins as none does");
    }
    const auto words = stream.subspan(in.position());
    next_ = words.data();
    end_ = next_ + words.size();
  }

  /// @param tables   of each symbol
  /// @param symbols  as many; a multiple of the lanes but for the last ones
  void read(const DenseSlots& slots, std::span<const std::uint8_t> tables, std::uint8_t* symbols) {
    std::array<std::uint32_t, kDenseLanes> x = states_;
    const std::byte* next = next_;
    const auto step = [&](std::size_t i) {
      std::uint32_t& state = x[i % kDenseLanes];
      const std::uint32_t slot = slots.table[tables[i]][state & (kWhole - 1)];
      state = ((slot & 0xFFF) + 1) * (state >> kProbabilityBits) + (slot >> 12 & 0xFFF);
      symbols[i] = static_cast<std::uint8_t>(slot >> 24);
      return state;
    };
    std::size_t i = 0;
    for (; i + kDenseLanes <= tables.size() && end_ - next >= 2 * kDenseLanes; i += kDenseLanes)
      for (std::size_t lane = 0; lane < kDenseLanes; ++lane) {
        const std::uint32_t state = step(i + lane);
        std::uint16_t word;
        std::memcpy(&word, next, 2);
        // Whether a word is due no processor foresees: no branch.
        const std::uint32_t low = state < kLeastState;
        x[lane] = state ^ ((state ^ (state << 16 | word)) & (0u - low));
        next += 2 * low;
      }
    for (; i < tables.size(); ++i) {
      const std::uint32_t state = step(i);
      if (state >= kLeastState) continue;
      if (end_ - next < 2)
        throw Error(Errc::kTruncated, "a dense change ends early; get the file again");
      std::uint16_t word;
      std::memcpy(&word, next, 2);
      next += 2;
      x[i % kDenseLanes] = state << 16 | word;
    }
    states_ = x;
    next_ = next;
  }

  void check_end() const {
    if (next_ != end_ || std::ranges::any_of(states_, [](auto x) { return x != kLeastState; }))
      refuse("does not end with its stream");
  }

 private:
  [[noreturn]] static void refuse(const char* why) {
    throw Error(Errc::kCorrupt, std::string("a dense change ") + why + "; get the file again");
  }

  std::array<std::uint32_t, kDenseLanes> states_;
  const std::byte *next_, *end_;
};

}  // namespace gbcompress::codec::delta
