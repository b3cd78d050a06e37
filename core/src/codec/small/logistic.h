#pragma once
/// Logarithms, odds and probabilities as tables of integers, so that every processor has the same.
/// Probabilities are in units of 2^-16; logarithms (natural) in units of 1/256.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace gbcompress::codec {

inline constexpr int kMaxLogOdds = 2815;  ///< odds of about e^11: probabilities stay above 2^-16
inline constexpr int kOctave = 45426;     ///< ln 2, in units of 2^-16

class Logistic {
 public:
  static const Logistic& tables();

  /// Probability, 1 ... 65535, of log-odds (clamped to +-kMaxLogOdds).
  int probability(std::int64_t log_odds) const {
    const std::int64_t bounded = std::clamp<std::int64_t>(log_odds, -kMaxLogOdds, kMaxLogOdds);
    return probability_[static_cast<std::size_t>(bounded + kMaxLogOdds)];
  }
  /// The least log-odds that have at least this probability (0 ... 65535).
  int log_odds(std::uint32_t probability) const { return log_odds_[probability]; }
  /// Binary logarithm of x >= 1, in units of 1/256.
  int log2(std::uint64_t x) const {
    const int top = 63 - std::countl_zero(x);
    const std::uint64_t below = top >= 8 ? x >> (top - 8) : x << (8 - top);
    return top * 256 + fraction_[below & 255];
  }
  /// Natural logarithm of x >= 1.
  int log(std::uint64_t x) const { return log2(x) * kOctave >> 16; }

 private:
  Logistic();

  std::array<std::uint16_t, 2 * kMaxLogOdds + 1> probability_;
  std::array<std::int16_t, 65536> log_odds_;
  std::array<std::uint8_t, 256> fraction_;  ///< 256 log2(1 + i / 256), rounded down
};

}  // namespace gbcompress::codec
