#pragma once
/// One kind of binary decision: adaptive tables and numeric features, mixed in log-odds.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/logistic.h"

namespace gbcompress::codec {

/// A probability that learns from every bit, quickly at first: units of 2^-22, and how often it was
/// asked (up to a limit) in the lowest 10 bits.
class Slot {
 public:
  explicit Slot(std::uint32_t probability) : state_(probability << 10) {}
  int count() const { return static_cast<int>(state_ & 1023); }
  std::uint32_t probability() const { return state_ >> 16; }  ///< units of 2^-16

  void learn(bool bit, int limit) {
    const int seen = count();
    const auto p = static_cast<std::int64_t>(state_ >> 10);
    const std::int64_t target = bit ? (1 << 22) - 1 : 0;
    const std::int64_t next = std::clamp<std::int64_t>(p + (target - p) * 10 / (seen * 10 + 16),
                                                       kLeast, (1 << 22) - kLeast);
    state_ = static_cast<std::uint32_t>(next) << 10 | std::min(seen + 1, limit);
  }

 private:
  static constexpr int kLeast = 64;
  std::uint32_t state_;
};

struct BitModelSettings {
  std::uint32_t start;  ///< probability of fresh slots, units of 2^-22
  int limit;            ///< counts of slots end here: how slowly they forget, at most 1023
  int rate;             ///< of the mixer
  int table_weight;     ///< first weight of every table, units of 2^-16
};

/// @tparam kTables    slots that are asked for every bit, one a table
/// @tparam kFeatures  numbers in log-odds that are mixed in as they are
template <int kTables, int kFeatures>
class BitModel {
 public:
  static constexpr int kInputs = kTables + kFeatures + 1;  // the last one is constant

  BitModel(BitModelSettings settings, std::array<int, kTables> sizes, int sets,
           std::array<int, kFeatures + 1> feature_weights)
      : settings_(settings), weights_(sets), seen_(sets, 0) {
    for (int i = 0; i < kTables; ++i) tables_[i].assign(sizes[i], Slot(settings.start));
    for (auto& weights : weights_) {
      std::fill_n(weights.begin(), kTables, settings.table_weight);
      std::copy(feature_weights.begin(), feature_weights.end(), weights.begin() + kTables);
    }
  }

  /// Probability of a one, 1 ... 65535.
  /// @param keys      one index a table
  /// @param features  at least kFeatures
  /// @param set       which weights mix
  int predict(const std::array<int, kTables>& keys, std::span<const int> features, int set) {
    const Logistic& tables = Logistic::tables();
    set_ = set;
    for (int i = 0; i < kTables; ++i) {
      slots_[i] = &tables_[i][keys[i]];
      const int count = slots_[i]->count();
      const int trust = 256 * (count * 10 + 4) / (count * 10 + 10);
      inputs_[i] = tables.log_odds(slots_[i]->probability()) * trust >> 8;
    }
    for (int i = 0; i < kFeatures; ++i) inputs_[kTables + i] = features[i];
    inputs_[kInputs - 1] = 256;
    std::int64_t sum = 0;
    for (int i = 0; i < kInputs; ++i) sum += std::int64_t{inputs_[i]} * weights_[set][i];
    probability_ = tables.probability(sum >> 16);
    return probability_;
  }

  /// Learns from the bit that predict() was asked about.
  void learn(bool bit) {
    constexpr int kCalm = 11;  // bits after which the mixer is half as fast
    auto& weights = weights_[set_];
    std::int64_t& seen = seen_[set_];
    const std::int64_t rate = settings_.rate + settings_.rate * 4 * kCalm / (kCalm + seen);
    ++seen;
    const std::int64_t error = (std::int64_t{bit} << 16) - probability_;
    for (int i = 0; i < kInputs; ++i) {
      const std::int64_t change = (inputs_[i] * error * rate + (1 << 17)) >> 18;
      weights[i] = static_cast<int>(std::clamp<std::int64_t>(weights[i] + change, -kMost, kMost));
    }
    for (Slot* slot : slots_) slot->learn(bit, settings_.limit);
  }

 private:
  static constexpr int kMost = 16 << 16;

  BitModelSettings settings_;
  std::array<std::vector<Slot>, kTables> tables_;
  std::vector<std::array<int, kInputs>> weights_;
  std::vector<std::int64_t> seen_;

  // Of the bit that was asked about last.
  std::array<Slot*, kTables> slots_{};
  std::array<int, kInputs> inputs_{};
  int probability_ = 0;
  int set_ = 0;
};

}  // namespace gbcompress::codec
