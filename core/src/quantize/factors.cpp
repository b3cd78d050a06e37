#include "quantize/factors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "artifact/sections/elements.h"

namespace gbcompress {
namespace {

/// Multiples that the least magnitude is tried as.
constexpr std::int64_t kMostLeast = 8;
/// Values that are looked at before all of a block are sorted.
constexpr std::size_t kFirst = 512;
constexpr int kFloatMantissa = 23;

/// Half of the distance of neighboring numbers from 1 to 2.
double half_step(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-24;
}

float rounded_to_bits(double value, int mantissa) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(fraction, mantissa + 1)), exponent - mantissa - 1));
}

/// As elements of the type.
bool makes_all(float factor, std::span<const float> magnitudes, DType dtype) {
  if (!(factor > 0) || !std::isnormal(factor)) return false;
  std::vector<float> products;
  for (const float magnitude : magnitudes)
    products.push_back(static_cast<float>(multiple_of(magnitude, factor)) * factor);
  if (dtype != DType::kF32) floats_of(elements_of(products, dtype), dtype, products);
  return std::equal(products.begin(), products.end(), magnitudes.begin());
}

/// The factors between which each magnitude is a multiple, where the least one is that multiple.
std::optional<std::pair<double, double>> factor_range(std::span<const float> magnitudes,
                                                      std::int64_t least, double half) {
  double low = 0, high = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const auto value = static_cast<double>(magnitudes[i]);
    const double multiple =
        i == 0 ? static_cast<double>(least) : std::nearbyint(value / ((low + high) / 2));
    if (multiple > static_cast<double>(kMostMultiple)) return {};
    // Below a power of two numbers lie closer.
    int exponent = 0;
    const bool power = std::frexp(value, &exponent) == 0.5;
    const double above = std::ldexp(half, exponent - 1), below = power ? above / 2 : above;
    low = std::max(low, (value - below) / multiple);
    high = std::min(high, (value + above) / multiple);
    if (low > high) return {};
  }
  return std::pair{low, high};
}

std::optional<float> factor_between(double low, double high, std::span<const float> magnitudes,
                                    DType dtype) {
  const double middle = (low + high) / 2;
  for (int bits = 0; bits <= kFloatMantissa; ++bits) {
    const float factor = rounded_to_bits(middle, bits);
    const auto exact = static_cast<double>(factor);
    if (exact >= low && exact <= high && makes_all(factor, magnitudes, dtype)) return factor;
  }
  // Products are rounded once more, so the range is wider by a step of float32.
  float below = static_cast<float>(middle), above = below;
  for (int i = 0; i < 2; ++i) {
    below = std::nextafter(below, 0.0F);
    above = std::nextafter(above, std::numeric_limits<float>::infinity());
    for (const float factor : {below, above})
      if (makes_all(factor, magnitudes, dtype)) return factor;
  }
  return {};
}

}  // namespace

std::int64_t multiple_of(float magnitude, float factor) noexcept {
  return std::llround(static_cast<double>(magnitude) / static_cast<double>(factor));
}

std::optional<float> common_factor(std::span<const float> magnitudes, DType dtype) {
  if (magnitudes.empty()) return 1.0F;
  // Room for the rounding of the product to float32.
  const double half = half_step(dtype) + 0x1p-24;
  for (std::int64_t least = 1; least <= kMostLeast; ++least) {
    const auto range = factor_range(magnitudes, least, half);
    if (!range) continue;
    if (const auto factor = factor_between(range->first, range->second, magnitudes, dtype))
      return factor;
  }
  return {};
}

std::optional<std::vector<float>> distinct_magnitudes(std::span<const float> values,
                                                      std::size_t most) {
  std::vector<float> magnitudes;
  const auto take = [&](std::span<const float> some) {
    magnitudes.clear();
    for (const float value : some) {
      if (value == 0) continue;
      if (!std::isnormal(value)) return false;
      magnitudes.push_back(std::fabs(value));
    }
    std::sort(magnitudes.begin(), magnitudes.end());
    magnitudes.erase(std::unique(magnitudes.begin(), magnitudes.end()), magnitudes.end());
    return magnitudes.size() <= most;
  };
  if (values.size() > kFirst && !take(values.first(kFirst))) return {};
  if (!take(values)) return {};
  return magnitudes;
}

}  // namespace gbcompress
