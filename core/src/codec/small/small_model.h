#pragma once
/// Profile `small`: what every bit of a value is expected to be, learned from the bits before it.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "codec/small/bit_model.h"
#include "codec/small/surroundings.h"
#include "codec/small/wide_model.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec {

/// Tensors one after another; a value is look(), any number of visits, put().
class SmallModel {
 public:
  SmallModel();

  void begin(const IntegerGrid& grid);
  void look(int prior);
  void put(int value);
  void end();

  /// Probability that the value at hand is not zero, units of 2^-16.
  int probability_of_nonzero() {
    return zero_.predict(zero_keys_, view_.features, {zero_set_, density_});
  }
  /// Adapts to that alone, for a caller who needs no more.
  void learn_nonzero(bool nonzero) { zero_.learn(nonzero); }

  /// Walks the decisions that make up a value.
  /// @param visitor  decide(model, keys, features, sets, bit) and even(bit): the bit, given or read
  /// @param value    any where they read
  /// @return the value
  template <typename Visitor>
  int visit(Visitor&& visitor, int value);

 private:
  template <typename Visitor>
  bool visit_sign(Visitor&& visitor, bool positive);

  static constexpr int kUnary = 20;  // decisions before a magnitude goes on as an Elias-gamma code
  static constexpr std::array<int, 4> kMoreKeys = {kUnary, kUnary * 10, kUnary * 32, kUnary * 32};
  static constexpr int kExponents = 21;
  static constexpr int kLn2 = 177;  // in units of features
  static constexpr std::size_t kLinks = 8;

  BitModel<4, kFeatureCount> zero_;
  BitModel<3, 2> sign_;
  BitModel<4, kFeatureCount> more_;
  BitModel<1, kFeatureCount> exponent_;

  std::optional<WideModel> wide_;  ///< from the first wide grid on
  bool is_wide_ = false;
  std::optional<Surroundings> place_;
  QuantizerState state_{false};
  std::vector<RowMagnitudes> links_;
  View view_{};
  std::array<int, 4> zero_keys_{};
  int quantizer_ = 0, zero_set_ = 0, density_ = 0, column_level_ = 0, row_level_ = 0;
};

template <typename Visitor>
bool SmallModel::visit_sign(Visitor&& visitor, bool positive) {
  const auto sign = [](int x) { return x > 0 ? 2 : x < 0 ? 1 : 0; };
  const std::array<int, 3> sign_keys = {
      sign(view_.left) * 3 + sign(view_.up),
      sign(view_.left) * 27 + sign(view_.up) * 9 + sign(view_.left2) * 3 + sign(view_.up_left),
      sign(view_.column_sign) * 9 + sign(view_.above) * 3 + sign(view_.up_right)};
  const std::array<int, 2> trends = {
      64 * std::clamp(2 * view_.left + 2 * view_.up + view_.left2 + view_.up_left + view_.up_right,
                      -8, 8),
      64 * std::clamp(view_.column_sign, -8, 8)};
  return visitor.decide(sign_, sign_keys, trends, MixerSets{0, density_}, positive);
}

template <typename Visitor>
int SmallModel::visit(Visitor&& visitor, int value) {
  if (is_wide_)
    return wide_->visit(
        visitor, [&](bool positive) { return visit_sign(visitor, positive); }, value);
  if (!visitor.decide(zero_, zero_keys_, view_.features, MixerSets{zero_set_, density_},
                      value != 0))
    return 0;
  const bool positive = visit_sign(visitor, value > 0);
  const int magnitude = std::abs(value);
  const int beside = std::min(9, std::abs(view_.left) + std::abs(view_.up));
  int found = 1;
  while (found <= kUnary) {
    const int k = found - 1;
    std::array<int, 4> keys = {k, k * 10 + beside, k * 32 + column_level_, k * 32 + row_level_};
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] += quantizer_ * kMoreKeys[i];
    if (!visitor.decide(more_, keys, view_.features,
                        MixerSets{std::min(k, 2) + 3 * quantizer_, density_}, magnitude > found))
      break;
    ++found;
  }
  if (found > kUnary) {  // magnitude - kUnary >= 1, as Elias gamma
    const int rest = magnitude - kUnary;
    int exponent = 0;
    while (exponent < kExponents) {
      std::array<int, kFeatureCount> features = view_.features;
      for (int i = 0; i < kLogFeatures; ++i)
        features[i] = std::clamp(features[i] - kLn2 * exponent, -kMaxLogOdds, kMaxLogOdds);
      if (!visitor.decide(exponent_, std::array<int, 1>{exponent}, features, MixerSets{0, density_},
                          rest >> exponent > 1))
        break;
      ++exponent;
    }
    int read = 1;
    for (int bit = exponent; bit-- > 0;) read = 2 * read + visitor.even(rest >> bit & 1);
    found = kUnary + read;
  }
  return positive ? found : -found;
}

}  // namespace gbcompress::codec
