#pragma once
/// Profile `small`, grids whose magnitudes are mostly beyond some ten, as those of int8 weights: a
/// magnitude is the number of its bits, then these bits, each expected from Gaussians and Laplace
/// distributions of the means around it.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "codec/small/bit_model.h"
#include "codec/small/surroundings.h"

namespace gbcompress::codec {

inline constexpr int kMostOdds = 2047;  ///< of a distribution, units of 1/256

/// Probability that a magnitude is at least x, for a mean magnitude of 1.
class Survival {
 public:
  static constexpr int kShapes = 2;  ///< half of a Gaussian, half of a Laplace distribution
  static constexpr int kEnd = 1024;  ///< beyond so many 64ths of the mean there is nothing
  static constexpr std::int64_t kOne = 1 << 30;

  static const Survival& tables();

  /// 1 / mean in units of 2^-31, of the mean's logarithm (units of 1/256).
  std::int64_t reciprocal(int log_mean) const {
    return log_mean >= 0 ? decay_[log_mean] : (std::int64_t{1} << 62) / decay_[-log_mean];
  }
  /// Units of 2^-30. @param bound  0 ... 2^22: magnitudes from `bound` on
  std::int64_t at_least(int shape, std::int64_t bound, std::int64_t reciprocal) const {
    if (bound == 0) return kOne;
    const std::int64_t place = (2 * bound - 1) * reciprocal >> 10;  // 2^-22 means
    const std::int64_t index = place >> 16;
    if (index >= kEnd) return 0;
    const auto* table = table_[shape].data() + index;
    return table[0] - ((table[0] - table[1]) * (place & 65535) >> 16);
  }

 private:
  Survival();

  std::array<std::int64_t, kMaxLogOdds + 1> decay_;  ///< 2^31 exp(-k / 256)
  std::array<std::array<std::int64_t, kEnd + 1>, kShapes> table_;
};

class WideModel {
 public:
  WideModel();

  /// @param cols  of the next tensor, where a vector is a row
  void begin(std::int64_t cols);
  void look(const View& view);
  void put(int value);

  /// As SmallModel::visit(). @param sign  sign(value > 0) codes whether a value is positive
  template <typename Visitor, typename Sign>
  int visit(Visitor&& visitor, Sign&& sign, int value);

 private:
  static constexpr int kTables = 3;
  static constexpr int kExpected = 5;  // distributions that predict
  static constexpr std::array<int, kExpected> kShape = {0, 0, 0, 0, 1};
  static constexpr int kMostBits = 21;  // of a magnitude
  static constexpr int kTreeBits = 8;   // below the leading one that are learned; the rest is even
  static constexpr int kFirstTree = 32;
  static constexpr int kNodes = kFirstTree + ((kMostBits + 1) << kTreeBits);
  static constexpr int kLevels = 16;
  static constexpr int kDepths = 11;
  static constexpr int kPlaces = 48;  // columns that are left, in quarters of octaves

  /// Whether the magnitude has at least so many bits more, or a one: it lies in from_ ... end_.
  template <typename Visitor>
  bool decide(Visitor& visitor, int node, MixerSets sets, std::int64_t middle, bool bit);
  template <typename Visitor>
  bool decide_peak(Visitor& visitor, int magnitude);
  template <typename Visitor>
  int visit_below(Visitor& visitor, int bits, int magnitude);

  BitModel<kTables, kExpected> magnitude_;
  BitModel<1, 0> peak_;

  std::int64_t cols_ = 1, col_ = 0;
  int peak_before_ = 0, peak_here_ = 0;  ///< largest magnitudes: of the rows before, of this one
  std::array<int, kTables> levels_{};
  // What is above the bounds of the value at hand, by each of the distributions.
  std::array<std::int64_t, kExpected> reciprocal_{}, from_{}, end_{};
};

template <typename Visitor>
bool WideModel::decide(Visitor& visitor, int node, MixerSets sets, std::int64_t middle, bool bit) {
  const Survival& survival = Survival::tables();
  const Logistic& tables = Logistic::tables();
  std::array<int, kExpected> odds;
  std::array<std::int64_t, kExpected> at_middle;
  for (int i = 0; i < kExpected; ++i) {
    at_middle[i] = survival.at_least(kShape[i], middle, reciprocal_[i]);
    const auto above = static_cast<std::uint64_t>(at_middle[i] - end_[i] + 1);
    const auto below = static_cast<std::uint64_t>(from_[i] - at_middle[i] + 1);
    odds[i] = std::clamp(tables.log(above) - tables.log(below), -kMostOdds, kMostOdds);
  }
  std::array<int, kTables> keys;
  for (int i = 0; i < kTables; ++i) keys[i] = node * kLevels + levels_[i];
  bit = visitor.decide(magnitude_, keys, odds, sets, bit);
  (bit ? from_ : end_) = at_middle;
  return bit;
}

/// The largest magnitude so far: quantized rows have it once.
template <typename Visitor>
bool WideModel::decide_peak(Visitor& visitor, int magnitude) {
  if (peak_before_ == 0) return false;
  const int left = Logistic::tables().log2(static_cast<std::uint64_t>(cols_ - col_)) / 64;
  const int key = peak_here_ >= peak_before_ ? 0 : 1 + std::min(left, kPlaces - 2);
  return visitor.decide(peak_, std::array<int, 1>{key}, std::array<int, 0>{}, MixerSets{0, 0},
                        magnitude == peak_before_);
}

/// The bits below the leading one.
template <typename Visitor>
int WideModel::visit_below(Visitor& visitor, int bits, int magnitude) {
  int read = 1;
  for (int depth = 0; depth < bits - 1; ++depth) {
    const int below = bits - 2 - depth;
    const bool bit = magnitude >> below & 1;
    if (depth < kTreeBits) {
      const int node = kFirstTree + (bits << kTreeBits) + read;
      const std::int64_t middle = (2 * std::int64_t{read} + 1) << below;
      const MixerSets sets{kMostBits + std::min(depth, kDepths - 1), kMostBits + bits};
      read = 2 * read + decide(visitor, node, sets, middle, bit);
    } else {
      read = 2 * read + visitor.even(bit);
    }
  }
  return read;
}

template <typename Visitor, typename Sign>
int WideModel::visit(Visitor&& visitor, Sign&& sign, int value) {
  const int magnitude = std::abs(value);
  if (decide_peak(visitor, magnitude)) return sign(value > 0) ? peak_before_ : -peak_before_;
  from_.fill(Survival::kOne);
  end_.fill(0);
  int bits = 0;
  while (bits < kMostBits &&
         decide(visitor, bits, {bits, bits}, std::int64_t{1} << bits, magnitude >> bits != 0))
    ++bits;
  if (bits == 0) return 0;
  const bool positive = sign(value > 0);
  const int read = visit_below(visitor, bits, magnitude);
  return positive ? read : -read;
}

}  // namespace gbcompress::codec
