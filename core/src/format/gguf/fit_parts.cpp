#include "format/gguf/fit_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gbcompress::gguf {
namespace {

constexpr std::size_t kMostValues = 32;

/// a * b + c, rounded once or twice.
template <Rounding kRounding>
inline float product_sum(float a, float b, float c) {
  if constexpr (kRounding == Rounding::kTwice) return a * b + c;
  // The product of two floats is exact as a double. Its sum is rounded to odd, so that rounding it
  // once more is as rounding once.
  const double product = static_cast<double>(a) * b, sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : ~std::uint64_t{0};
  return static_cast<float>(std::bit_cast<double>(bits));
}

/// Calls body with the rounding as a constant.
template <typename Body>
auto with_rounding(Rounding rounding, const Body& body) {
  if (rounding == Rounding::kTwice)
    return body(std::integral_constant<Rounding, Rounding::kTwice>());
  return body(std::integral_constant<Rounding, Rounding::kOnce>());
}

/// Calls body(i) for each of `count` values; a count that compilers know makes vectors of it.
template <typename Body>
inline void for_values(std::size_t count, const Body& body) {
#ifndef GBC_FREESTANDING
  if (count == kMostValues) {
    for (std::size_t i = 0; i < kMostValues; ++i) body(i);
    return;
  }
#endif
  for (std::size_t i = 0; i < count; ++i) body(i);
}

/// Finite values. @return their largest magnitude
float magnitude_of(std::span<const float> values) {
  // As integers, magnitudes have the same order.
  std::int32_t most = 0;
  for_values(values.size(), [&](std::size_t i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF;
    most = most > bits ? most : bits;
  });
  return std::bit_cast<float>(most);
}

/// The value of largest magnitude, the first of such.
float largest_of(std::span<const float> values) {
  const float magnitude = magnitude_of(values);
  const auto first =
      std::ranges::find_if(values, [&](float value) { return std::abs(value) == magnitude; });
  return first == values.end() || magnitude == 0 ? 0 : *first;
}

float inverse_of(float scale) { return scale != 0 ? 1 / scale : 0; }

/// Rounded toward 0, 0 to `most`.
std::uint8_t cut_off(float value, float most) {
  value = value > 0 ? value : 0;
  return static_cast<std::uint8_t>(static_cast<int>(value < most ? value : most));
}

/// Sums over quants of values under weights.
struct QuantSums {
  float values = 0, squares = 0;
};

template <Rounding kRounding>
void add_weighted(QuantSums& sums, float value, int quant, int sign = 1) {
  const auto q = static_cast<float>(quant);
  const float weight = value * value, s = static_cast<float>(sign);
  sums.values = product_sum<kRounding>(s * (weight * value), q, sums.values);
  sums.squares = product_sum<kRounding>(s * (weight * q), q, sums.squares);
}

int signed_level(float value, int most) {
  return std::clamp(nearest_integer(value), -most, most - 1);
}

template <Rounding kRounding>
QuantSums sums_under(float inverse, std::span<const float> values, int most) {
  QuantSums sums;
  for (const float value : values)
    add_weighted<kRounding>(sums, value, signed_level(inverse * value, most));
  return sums;
}

/// One round over all quants. @return whether one was changed
template <Rounding kRounding>
bool refine(std::span<const float> values, int most, int* quants, QuantSums& sums) {
  bool changed = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    QuantSums without = sums;
    add_weighted<kRounding>(without, values[i], quants[i], -1);
    if (!(without.values > 0)) continue;
    const int better = signed_level(values[i] * without.squares / without.values, most);
    if (better == quants[i]) continue;
    add_weighted<kRounding>(without, values[i], better);
    if (!(without.squares > 0) || !(without.values * without.values * sums.squares >
                                    sums.values * sums.values * without.squares))
      continue;
    quants[i] = better;
    sums = without;
    changed = true;
  }
  return changed;
}

/// The search of fit_offset().
template <Rounding kRounding>
class OffsetFit {
 public:
  OffsetFit(const OffsetSearch& search, std::span<const float> values)
      : search_(search), values_(values) {
    set_weights();
    low_ = high_ = values[0];
    weight_ = weights_[0];
    value_ = weights_[0] * values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      low_ = values[i] < low_ ? values[i] : low_;
      high_ = values[i] > high_ ? values[i] : high_;
      weight_ += weights_[i];
      value_ = product_sum<kRounding>(weights_[i], values[i], value_);
    }
    low_ = low_ > 0 ? 0 : low_;
  }

  PartFit run(std::uint8_t* symbols) {
    if (high_ == low_) {
      std::fill_n(symbols, values_.size(), std::uint8_t{0});
      return {0, -low_};
    }
    const auto most = static_cast<float>(search_.most);
    float inverse = most / (high_ - low_);
    scale_ = 1 / inverse;
    set_levels(inverse, symbols);
    error_ = error_of(symbols, scale_, low_);
    std::array<std::uint8_t, kMostValues> tried{};
    for (int step = 0; step <= search_.steps; ++step) {
      inverse = (product_sum<kRounding>(0.1F, static_cast<float>(step), search_.first) + most) /
                (high_ - low_);
      set_levels(inverse, tried.data());
      if (improve(tried.data())) std::copy_n(tried.begin(), values_.size(), symbols);
    }
    return {scale_, -low_};
  }

 private:
  void set_weights() {
    float mean = 0;
    if (!search_.absolute) {
      float squares = 0;
      for (const float value : values_) squares = product_sum<kRounding>(value, value, squares);
      mean = std::sqrt(squares / static_cast<float>(values_.size()));
    }
    for (std::size_t i = 0; i < values_.size(); ++i) weights_[i] = mean + std::abs(values_[i]);
  }

  void set_levels(float inverse, std::uint8_t* levels) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
      levels[i] = static_cast<std::uint8_t>(
          std::clamp(nearest_integer(inverse * (values_[i] - low_)), 0, search_.most));
  }

  float error_of(const std::uint8_t* levels, float scale, float low) const {
    float error = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float part = product_sum<kRounding>(scale, static_cast<float>(levels[i]), low) - values_[i];
      part = search_.absolute ? std::abs(part) : part * part;
      error = product_sum<kRounding>(weights_[i], part, error);
    }
    return error;
  }

  /// Takes the best scale and offset of these levels, if its error is less than any before.
  bool improve(const std::uint8_t* levels) {
    float sum = 0, squares = 0, products = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto level = static_cast<float>(levels[i]);
      sum = product_sum<kRounding>(weights_[i], level, sum);
      squares = product_sum<kRounding>(weights_[i] * level, level, squares);
      products = product_sum<kRounding>(weights_[i] * level, values_[i], products);
    }
    const float spread = product_sum<kRounding>(weight_, squares, -(sum * sum));
    if (!(spread > 0)) return false;
    float scale = product_sum<kRounding>(weight_, products, -(value_ * sum)) / spread;
    float low = product_sum<kRounding>(squares, value_, -(sum * products)) / spread;
    if (low > 0) {
      low = 0;
      scale = products / squares;
    }
    const float error = error_of(levels, scale, low);
    if (!(error < error_)) return false;
    error_ = error;
    scale_ = scale;
    low_ = low;
    return true;
  }

  const OffsetSearch& search_;
  std::span<const float> values_;
  std::array<float, kMostValues> weights_{};
  float low_ = 0, high_ = 0, weight_ = 0, value_ = 0, scale_ = 0, error_ = 0;
};

}  // namespace

PartFit fit_bytes(std::span<const float> values, std::uint8_t* symbols) {
  const float scale = magnitude_of(values) / 127, inverse = inverse_of(scale);
  for_values(values.size(), [&](std::size_t i) {
    float at = values[i] * inverse;
    at = at > -127 ? at : -127;
    at = at < 127 ? at : 127;
    // The nearest integer, of two the one farther from 0.
    const int whole = static_cast<int>(at);
    const float rest = at - static_cast<float>(whole);
    symbols[i] =
        static_cast<std::uint8_t>(whole + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0));
  });
  return {scale, 0};
}

PartFit fit_largest(unsigned bits, Rounding rounding, std::span<const float> values,
                    std::uint8_t* symbols) {
  const auto half = static_cast<float>(1U << (bits - 1));
  const float scale = largest_of(values) / -half, inverse = inverse_of(scale);
  const auto most = static_cast<float>((1U << bits) - 1);
  with_rounding(rounding, [&](auto constant) {
    for_values(values.size(), [&](std::size_t i) {
      symbols[i] = cut_off(product_sum<constant()>(values[i], inverse, half + 0.5F), most);
    });
  });
  return {scale, 0};
}

PartFit fit_range(unsigned bits, Rounding rounding, std::span<const float> values,
                  std::uint8_t* symbols) {
  float low = values[0], high = values[0];
  for (const float value : values) {
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  const auto most = static_cast<float>((1U << bits) - 1);
  const float scale = (high - low) / most, inverse = inverse_of(scale);
  with_rounding(rounding, [&](auto constant) {
    for_values(values.size(), [&](std::size_t i) {
      symbols[i] = cut_off(product_sum<constant()>(values[i] - low, inverse, 0.5F), most);
    });
  });
  return {scale, low};
}

PartFit fit_offset(const OffsetSearch& search, Rounding rounding, std::span<const float> values,
                   std::uint8_t* symbols) {
  return with_rounding(
      rounding, [&](auto constant) { return OffsetFit<constant()>(search, values).run(symbols); });
}

float fit_three_bits(Rounding rounding, std::span<const float> values, std::uint8_t* symbols) {
  constexpr int kMost = 4, kRounds = 5;
  std::fill_n(symbols, values.size(), std::uint8_t{0});
  const float largest = largest_of(values);
  if (std::abs(largest) < kNoScale) return 0;
  const float inverse = -static_cast<float>(kMost) / largest;
  std::array<int, kMostValues> quants{};
  for (std::size_t i = 0; i < values.size(); ++i)
    quants[i] = signed_level(inverse * values[i], kMost);
  return with_rounding(rounding, [&](auto constant) {
    QuantSums sums = sums_under<constant()>(inverse, values, kMost);
    for (int round = 0; round < kRounds; ++round)
      if (!refine<constant()>(values, kMost, quants.data(), sums)) break;
    for (std::size_t i = 0; i < values.size(); ++i)
      symbols[i] = static_cast<std::uint8_t>(quants[i] + kMost);
    return sums.values / sums.squares;
  });
}

float fit_six_bits(Rounding rounding, std::span<const float> values, std::uint8_t* symbols) {
  constexpr int kMost = 32, kTries = 9;
  std::fill_n(symbols, values.size(), std::uint8_t{0});
  const float largest = largest_of(values);
  if (std::abs(largest) < kNoScale) return 0;
  return with_rounding(rounding, [&](auto constant) {
    float used = -static_cast<float>(kMost) / largest;
    QuantSums sums = sums_under<constant()>(used, values, kMost);
    float scale = sums.squares != 0 ? sums.values / sums.squares : 0;
    float best = scale * sums.values;
    for (int i = -kTries; i <= kTries; ++i) {
      if (i == 0) continue;
      const float inverse =
          -product_sum<constant()>(0.1F, static_cast<float>(i), static_cast<float>(kMost)) /
          largest;
      sums = sums_under<constant()>(inverse, values, kMost);
      if (!(sums.squares > 0) || !(sums.values * sums.values > best * sums.squares)) continue;
      used = inverse;
      scale = sums.values / sums.squares;
      best = scale * sums.values;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      symbols[i] = static_cast<std::uint8_t>(signed_level(used * values[i], kMost) + kMost);
    return scale;
  });
}

}  // namespace gbcompress::gguf
