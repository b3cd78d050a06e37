#pragma once
/// Symbols of 16 kinds under probabilities that follow what was coded
/// (docs/reference/exact-deltas.md, "Symbols").

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "codec/rans.h"

namespace gbcompress::codec::delta {

inline constexpr unsigned kSymbols = 16;

class Adaptive {
 public:
  Adaptive() {
    for (unsigned i = 0; i < kSymbols; ++i) below_[i] = static_cast<std::int16_t>(kAll / 16 * i);
  }

  void put(RansWriter& out, unsigned symbol) {
    const unsigned start = edge(symbol);
    out.put(start, (symbol + 1 < kSymbols ? edge(symbol + 1) : kWhole) - start);
    learn(symbol);
  }

  unsigned get(RansReader& in) {
    const auto slot = static_cast<std::int16_t>(in.peek());
    const unsigned symbol = symbol_at(slot);
    const unsigned start = edge(symbol);
    in.take(static_cast<std::uint32_t>(slot) - start,
            (symbol + 1 < kSymbols ? edge(symbol + 1) : kWhole) - start);
    learn(symbol);
    return symbol;
  }

 private:
  /// In eighths of the slots that the symbols share beside the one that each has for itself.
  static constexpr int kAll = 8 * (static_cast<int>(kWhole) - 16);

  /// The last symbol that starts at most there.
  unsigned symbol_at(std::int16_t slot) const {
#ifdef __SSE2__
    // Symbols start in order, so the comparison is a row of ones with the symbol as its last one.
    const auto* from = reinterpret_cast<const __m128i*>(below_.data());
    const __m128i first = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
    const __m128i slots = _mm_set1_epi16(slot);
    const __m128i low = _mm_add_epi16(_mm_srai_epi16(_mm_load_si128(from), 3), first);
    const __m128i high = _mm_add_epi16(_mm_srai_epi16(_mm_load_si128(from + 1), 3),
                                       _mm_add_epi16(first, _mm_set1_epi16(8)));
    const __m128i beyond =
        _mm_packs_epi16(_mm_cmpgt_epi16(low, slots), _mm_cmpgt_epi16(high, slots));
    return static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(_mm_movemask_epi8(beyond)) |
                                                  1u << kSymbols)) -
           1;
#else
    std::int16_t reached = 0;
    for (unsigned i = 0; i < kSymbols; ++i)
      reached = static_cast<std::int16_t>(
          reached + (static_cast<std::int16_t>((below_[i] >> 3) + static_cast<int>(i)) <= slot));
    return static_cast<unsigned>(reached) - 1;
#endif
  }

  unsigned edge(unsigned symbol) const {
    return (static_cast<unsigned>(below_[symbol]) >> 3) + symbol;
  }

  void learn(unsigned symbol) {
    const int rate = kRates[count_];
    count_ = static_cast<std::uint16_t>(std::min<unsigned>(count_ + 1u, kRates.size() - 1));
    const auto last = static_cast<std::int16_t>(symbol);
    for (std::int16_t i = 0; i < static_cast<std::int16_t>(kSymbols); ++i) {
      const auto target = static_cast<std::int16_t>(i > last ? kAll : 0);
      const auto off = static_cast<std::int16_t>(target - below_[static_cast<unsigned>(i)]);
      below_[static_cast<unsigned>(i)] =
          static_cast<std::int16_t>(below_[static_cast<unsigned>(i)] + (off >> rate));
    }
  }

  /// Fast at first: 2 up to the fourth symbol, 3 up to the 11th, ..., 7 from the 123rd on.
  static constexpr auto kRates = [] {
    std::array<std::uint8_t, 124> rates{};
    for (unsigned n = 0; n < rates.size(); ++n)
      rates[n] =
          static_cast<std::uint8_t>(std::min(7, static_cast<int>(std::bit_width(n + 5u)) - 1));
    return rates;
  }();

  alignas(32) std::array<std::int16_t, kSymbols> below_;  ///< what all lower symbols have
  std::uint16_t count_ = 0;
};

/// The lowest `count` bits of a number, each as likely as not, the lowest first.
inline void put_bits(RansWriter& out, std::uint64_t bits, int count) {
  for (; count > 0; bits >>= 12, count -= 12)
    out.put_even(static_cast<std::uint32_t>(bits & ((1u << std::min(count, 12)) - 1)),
                 std::min(count, 12));
}

inline std::uint64_t get_bits(RansReader& in, int count) {
  std::uint64_t bits = 0;
  for (int at = 0; at < count; at += 12)
    bits |= static_cast<std::uint64_t>(in.take_even(std::min(count - at, 12))) << at;
  return bits;
}

}  // namespace gbcompress::codec::delta
