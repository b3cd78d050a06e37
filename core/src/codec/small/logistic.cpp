#include "codec/small/logistic.h"

namespace gbcompress::codec {

Logistic::Logistic() {
  constexpr std::uint64_t kOne = std::uint64_t{1} << 31;
  constexpr std::uint64_t kDecay = 4278222805;  // 2^32 exp(-1/256), rounded
  std::uint64_t decayed = kOne;                 // 2^31 exp(-k/256)
  for (int k = 0; k <= kMaxLogOdds; ++k) {
    const std::uint64_t sum = kOne + decayed;
    const std::uint64_t rare = std::max<std::uint64_t>(1, ((decayed << 16) + sum / 2) / sum);
    probability_[kMaxLogOdds - k] = static_cast<std::uint16_t>(rare);
    probability_[kMaxLogOdds + k] = static_cast<std::uint16_t>(65536 - rare);
    decayed = (decayed * kDecay + kOne) >> 32;
  }
  int index = 0;
  for (int p = 0; p < 65536; ++p) {
    while (index < 2 * kMaxLogOdds && probability_[index] < p) ++index;
    log_odds_[p] = static_cast<std::int16_t>(index - kMaxLogOdds);
  }
  for (int i = 0; i < 256; ++i) {
    std::uint64_t mantissa = std::uint64_t(256 + i) << 22;  // units of 2^-30, 1 to below 2
    int bits = 0;
    for (int bit = 0; bit < 8; ++bit) {
      mantissa = mantissa * mantissa >> 30;
      const bool above = mantissa >> 31;
      bits = 2 * bits + above;
      mantissa >>= above;
    }
    fraction_[i] = static_cast<std::uint8_t>(bits);
  }
}

const Logistic& Logistic::tables() {
  static const Logistic instance;
  return instance;
}

}  // namespace gbcompress::codec
