#pragma once
/// One kind of binary decision: adaptive tables and numeric features, mixed in log-odds by the mean
/// of two mixers, each with weights for the situation.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/small/logistic.h"

namespace gbcompress::codec {

/// A probability that adapts to every bit, quickly at first: units of 2^-22, and the number of
/// its bits so far (up to a limit) in the lowest 10 bits.
class Slot {
 public:
  explicit Slot(std::uint32_t probability) : state_(probability << 10) {}
  /// How far its log-odds are believed, units of 1/256.
  int trust() const { return kTrust[count()]; }
  int count() const { return static_cast<int>(state_ & 1023); }
  std::uint32_t probability() const { return state_ >> 16; }  ///< units of 2^-16

  void learn(bool bit, int limit) {
    // 32 bits hold ten times 2^22, and are divided several times as fast as 64.
    const int seen = count();
    const auto p = static_cast<std::int32_t>(state_ >> 10);
    const std::int32_t target = bit ? (1 << 22) - 1 : 0;
    const std::int32_t next =
        std::clamp(p + (target - p) * 10 / (seen * 10 + 16), kLeast, (1 << 22) - kLeast);
    state_ = static_cast<std::uint32_t>(next) << 10 | std::min(seen + 1, limit);
  }

 private:
  static constexpr std::int32_t kLeast = 64;
  static constexpr auto kTrust = [] {
    std::array<int, 1024> trust{};
    for (int n = 0; n < 1024; ++n) trust[n] = 256 * (10 * n + 4) / (10 * n + 7);
    return trust;
  }();
  std::uint32_t state_;
};

struct BitModelSettings {
  std::uint32_t start;    ///< probability of fresh slots, units of 2^-22
  int limit;              ///< counts of slots end here: how slowly they forget, at most 1023
  std::int64_t rate;      ///< of the mixers
  std::int64_t settling;  ///< bits after which that rate falls
  int table_weight;       ///< first weight of every table, units of 2^-16
};

/// Which weights the two mixers use.
struct MixerSets {
  int first, second;
};

/// @tparam kTables    slots that predict every bit, one per table
/// @tparam kFeatures  numbers in log-odds that are mixed in as they are
template <int kTables, int kFeatures>
class BitModel {
 public:
  static constexpr int kInputs = kTables + kFeatures + 1;  // the last one is constant

  BitModel(BitModelSettings settings, std::array<int, kTables> sizes, MixerSets sets,
           std::array<int, kFeatures + 1> feature_weights)
      : settings_(settings), first_(sets.first), second_(sets.second) {
    for (int i = 0; i < kTables; ++i) tables_[i].assign(sizes[i], Slot(settings.start));
    Mixer fresh;
    std::fill_n(fresh.weights.begin(), kTables, settings.table_weight);
    std::copy(feature_weights.begin(), feature_weights.end(), fresh.weights.begin() + kTables);
    std::fill(first_.begin(), first_.end(), fresh);
    std::fill(second_.begin(), second_.end(), fresh);
  }

  /// Probability of a one, 1 ... 65535.
  /// @param keys      one index a table
  /// @param features  at least kFeatures
  int predict(const std::array<int, kTables>& keys, std::span<const int> features, MixerSets sets) {
    const Logistic& tables = Logistic::tables();
    mixers_ = {&first_[sets.first], &second_[sets.second]};
    for (int i = 0; i < kTables; ++i) {
      slots_[i] = &tables_[i][keys[i]];
      inputs_[i] = tables.log_odds(slots_[i]->probability()) * slots_[i]->trust() >> 8;
    }
    for (int i = 0; i < kFeatures; ++i) inputs_[kTables + i] = features[i];
    inputs_[kInputs - 1] = 256;
    std::int64_t both = 0;
    for (Mixer* mixer : mixers_) {
      std::int64_t sum = 0;
      for (int i = 0; i < kInputs; ++i) sum += std::int64_t{inputs_[i]} * mixer->weights[i];
      mixer->probability = tables.probability(sum >> 16);
      both += sum;
    }
    return tables.probability(both >> 17);
  }

  /// Adapts to the bit that predict() was called for.
  void learn(bool bit) {
    for (Mixer* mixer : mixers_) {
      const std::int64_t step = ((std::int64_t{bit} << 16) - mixer->probability) * rate_of(*mixer);
      for (int i = 0; i < kInputs; ++i) {
        const std::int64_t change = (inputs_[i] * step + (1 << 25)) >> 26;
        mixer->weights[i] =
            static_cast<int>(std::clamp<std::int64_t>(mixer->weights[i] + change, -kMost, kMost));
      }
      if (mixer->seen < kSettled) ++mixer->seen;
    }
    for (Slot* slot : slots_) slot->learn(bit, settings_.limit);
  }

 private:
  static constexpr int kMost = 16 << 16;
  static constexpr int kCalm = 12;  // bits after which the haste of a fresh mixer is halved
  static constexpr int kSettled = 1 << 20;

  struct Mixer {
    std::array<int, kInputs> weights{};  // units of 2^-16
    int seen = 0;
    int probability = 0;  // of its own, for the bit of the last predict()
    int rate_until = 0;   // `rate` holds while less was seen
    std::int64_t rate = 0;
  };

  /// Rates never rise, so that one which is the same some bits later is so in between: most bits
  /// do without its divisions.
  std::int64_t rate_of(Mixer& mixer) const {
    constexpr int kAhead = 32;
    if (mixer.seen >= mixer.rate_until) {
      mixer.rate = rate(mixer.seen);
      const bool holds = rate(mixer.seen + kAhead - 1) == mixer.rate;
      mixer.rate_until = mixer.seen + (holds ? kAhead : 1);
    }
    return mixer.rate;
  }

  /// Hasty at first; an eighth of the usual rate in the end.
  std::int64_t rate(std::int64_t seen) const {
    const std::int64_t hasty = settings_.rate + settings_.rate * 4 * kCalm / (kCalm + seen);
    return hasty * (8 * settings_.settling + seen) / (8 * (settings_.settling + seen));
  }

  BitModelSettings settings_;
  std::array<std::vector<Slot>, kTables> tables_;
  std::vector<Mixer> first_, second_;

  // Of the bit of the last predict().
  std::array<Slot*, kTables> slots_{};
  std::array<Mixer*, 2> mixers_{};
  std::array<int, kInputs> inputs_{};
};

}  // namespace gbcompress::codec
