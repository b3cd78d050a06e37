#include "artifact/sections/coding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "artifact/sections/packing.h"
#include "base/float16.h"
#include "base/random.h"
#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

GNetSpec small_spec() {
  GNetSpec spec;
  spec.type_id = "linear";
  spec.shape = {7, 9};
  spec.tile_rows = 4;
  spec.tile_cols = 5;
  spec.hidden = {6, 3};
  return spec;
}

std::vector<float> random_theta(const GNetSpec& spec, std::uint64_t seed, float deviation = 0.2f) {
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  RandomStream(seed, "coding test").fill_normal(theta, 0, deviation);
  return theta;
}

/// A half's value from its definition.
double half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half >> 15 ? -size : size;
}

TEST(Float16, EveryHalfSurvives) {
  for (int bits = 0; bits < 65'536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if ((half & 0x7C00) == 0x7C00) {
      EXPECT_EQ(std::isnan(value), (half & 1023) != 0);
      if (!std::isnan(value)) {
        EXPECT_EQ(float_to_half(value), half);
      }
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), half_value(half));
    ASSERT_EQ(std::signbit(value), half >> 15 != 0);
    ASSERT_EQ(float_to_half(value), half);
  }
}

TEST(Float16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const auto upper = static_cast<std::uint16_t>(half + 1);
    const auto middle = static_cast<float>((half_value(half) + half_value(upper)) / 2);
    const std::uint16_t even = half % 2 ? upper : half;
    ASSERT_EQ(float_to_half(middle), even);
    ASSERT_EQ(float_to_half(-middle), even | 0x8000);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), upper);
  }
  EXPECT_EQ(float_to_half(65'519.996f), 0x7BFF);
  EXPECT_EQ(float_to_half(65'520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(float_to_half(std::nanf("")) & 0x7E00, 0x7E00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // half of the smallest, to even
  EXPECT_EQ(float_to_half(0x1.000002p-25f), 1);
  EXPECT_EQ(float_to_half(1e-40f), 0);
}

TEST(Float16, BfloatRoundsToNearestEven) {
  const auto bits = [](std::uint32_t b) { return float_to_bfloat(std::bit_cast<float>(b)); };
  EXPECT_EQ(bits(0x3F80'0000), 0x3F80);
  EXPECT_EQ(bits(0x3F80'7FFF), 0x3F80);
  EXPECT_EQ(bits(0x3F80'8000), 0x3F80);  // a tie, to even
  EXPECT_EQ(bits(0x3F81'8000), 0x3F82);
  EXPECT_EQ(bits(0x3F80'8001), 0x3F81);
  EXPECT_EQ(bits(0xBF80'8001), 0xBF81);
  EXPECT_EQ(bits(0x7F7F'FFFF), 0x7F80);  // beyond the largest: infinity
  EXPECT_EQ(bits(0x7F80'0000), 0x7F80);
  EXPECT_EQ(bits(0x7F80'0001), 0x7FC0);  // a NaN stays one
}

TEST(Coding, Float32IsExact) {
  const GNetSpec spec = small_spec();
  auto theta = random_theta(spec, 1);
  theta[0] = -0.0f;
  theta[1] = std::numeric_limits<float>::denorm_min();
  const auto back = round_trip(spec, Coding::kF32, theta);
  EXPECT_EQ(std::memcmp(back.data(), theta.data(), theta.size() * 4), 0);
}

TEST(Coding, Float16RoundsEachNumberAlone) {
  const GNetSpec spec = small_spec();
  const auto theta = random_theta(spec, 2);
  const auto back = round_trip(spec, Coding::kF16, theta);
  for (std::size_t n = 0; n < theta.size(); ++n)
    EXPECT_EQ(back[n], half_to_float(float_to_half(theta[n])));
}

TEST(Coding, Int8HasOneScaleForEachBlockOverAllTiles) {
  const GNetSpec spec = small_spec();
  const std::int64_t parameters = gnet_parameters(spec);
  auto theta = random_theta(spec, 3);
  const std::int64_t tiles = spec.grid().tiles();
  // The first layer's biases are all zero, the output bias is the same everywhere.
  const std::int64_t inputs = gnet_inputs(spec);
  const std::int64_t bounds[] = {
      0, inputs * 6, inputs * 6 + 6, inputs * 6 + 24, inputs * 6 + 27, inputs * 6 + 30, parameters};
  ASSERT_EQ(bounds[5] + 1, parameters);
  for (std::int64_t t = 0; t < tiles; ++t) {
    for (std::int64_t p = bounds[1]; p < bounds[2]; ++p) theta[t * parameters + p] = 0;
    theta[t * parameters + bounds[5]] = -0.7f;
  }
  const auto back = round_trip(spec, Coding::kI8, theta);
  for (int block = 0; block < 6; ++block) {
    float largest = 0;
    for (std::int64_t t = 0; t < tiles; ++t)
      for (std::int64_t p = bounds[block]; p < bounds[block + 1]; ++p)
        largest = std::max(largest, std::abs(theta[t * parameters + p]));
    double worst = 0;
    for (std::int64_t t = 0; t < tiles; ++t)
      for (std::int64_t p = bounds[block]; p < bounds[block + 1]; ++p)
        worst = std::max<double>(
            worst, std::abs(double{back[t * parameters + p]} - double{theta[t * parameters + p]}));
    EXPECT_LE(worst, largest / 254.0 * 1.0001) << block;
    if (block == 0) {
      EXPECT_GT(worst, largest / 254.0 * 0.8);
    }
  }
  for (std::int64_t t = 0; t < tiles; ++t)
    EXPECT_NEAR(back[t * parameters + bounds[5]], -0.7f, 1e-7);
  // Rounding what is rounded already changes nothing.
  EXPECT_EQ(round_trip(spec, Coding::kI8, back), back);
}

TEST(Coding, ExtremeNumbersStayFiniteOrAreRefused) {
  const GNetSpec spec = small_spec();
  auto theta = random_theta(spec, 4);
  theta[5] = std::numeric_limits<float>::max();
  const auto accepted = [&](Coding coding) {
    return code_of([&] {
      for (float v : round_trip(spec, coding, theta)) ASSERT_TRUE(std::isfinite(v));
    });
  };
  EXPECT_EQ(accepted(Coding::kF32), Errc::kFailure);
  EXPECT_EQ(accepted(Coding::kF16), Errc::kNonFinite);
  const Errc i8 = accepted(Coding::kI8);
  EXPECT_TRUE(i8 == Errc::kFailure || i8 == Errc::kNonFinite);
  theta.assign(theta.size(), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(accepted(Coding::kI8), Errc::kFailure);
  for (float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    theta[7] = bad;
    for (Coding c : {Coding::kF32, Coding::kF16, Coding::kI8})
      EXPECT_EQ(accepted(c), Errc::kNonFinite);
  }
  theta.pop_back();
  EXPECT_EQ(accepted(Coding::kF32), Errc::kShapeMismatch);
}

TEST(Coding, Sizes) {
  const GNetSpec spec = small_spec();
  const std::int64_t n = spec_parameters(spec);
  EXPECT_EQ(coded_bytes(spec, Coding::kF32), 4 * n);
  EXPECT_EQ(coded_bytes(spec, Coding::kF16), 2 * n);
  EXPECT_EQ(coded_bytes(spec, Coding::kI8), n + 6 * 4);
}

TEST(Packing, GivesBackWhatItGot) {
  RandomStream random(9, "packing test");
  for (std::size_t n : {0u, 1u, 7u, 64u, 1000u, 100'000u})
    for (std::int64_t element : {1, 2, 4, 8}) {
      std::vector<std::byte> raw(n / element * element);
      for (std::size_t i = 0; i < raw.size(); ++i)
        raw[i] = static_cast<std::byte>(i % element == 0 ? random.bits(i) : i / 1000);
      const auto [stored, packing] = pack(raw, element);
      EXPECT_LE(stored.size(), raw.size());
      EXPECT_EQ(packing == Packing::kRaw, stored.size() == raw.size());
      EXPECT_EQ(unpack(stored, packing, static_cast<std::int64_t>(raw.size()), element, "x"), raw);
      if (raw.size() > 50'000 && element == 4) {
        EXPECT_EQ(packing, Packing::kShuffledZstd);
      }
    }
}

}  // namespace
}  // namespace gbcompress
