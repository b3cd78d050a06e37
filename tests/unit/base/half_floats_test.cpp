#include <bit>
#include <cmath>

#include "base/float16.h"
#include "support/files.h"
#include "support/targets.h"

namespace gbcompress {
namespace {

/// By the definition of binary16.
float defined_value(std::size_t half) {
  const auto exponent = static_cast<int>(half >> 10 & 31);
  const auto fraction = static_cast<double>(half & 1023);
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>(half >> 15 ? -size : size);
}

TEST(HalfFloats, AreWhatTheirBitsSay) {
  for (std::size_t half = 0; half < 1 << 16; ++half) {
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(half_to_float(static_cast<std::uint16_t>(half)));
    if ((half & 0x7C00) == 0x7C00)  // infinite, or no number, of the same fraction
      ASSERT_EQ(bits, (half & 0x8000) << 16 | 0x7F800000 | (half & 1023) << 13) << half;
    else
      ASSERT_EQ(bits, std::bit_cast<std::uint32_t>(defined_value(half))) << half;
  }
}

/// Of all halves, behind `before` bytes.
void expect_scalar_results(std::size_t before) {
  constexpr std::size_t kHalves = 1 << 16;
  std::vector<std::byte> halves(before);
  for (std::size_t half = 0; half < kHalves; ++half) {
    halves.push_back(static_cast<std::byte>(half & 255));
    halves.push_back(static_cast<std::byte>(half >> 8));
  }
  std::vector<float> floats(kHalves);
  floats_of_halves(std::span(halves).subspan(before), floats.data());
  for (std::size_t half = 0; half < kHalves; ++half)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[half]),
              std::bit_cast<std::uint32_t>(half_to_float(static_cast<std::uint16_t>(half))))
        << half;
}

TEST(HalfFloats, AreTheScalarResultsOnEveryProcessor) {
  testing::on_every_target([](const char* target) {
    SCOPED_TRACE(target);
    expect_scalar_results(0);
    expect_scalar_results(1);
  });
}

TEST(HalfFloats, OfAnyNumber) {
  std::vector<std::byte> halves;
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> floats(n + 1, -1);
    floats_of_halves(halves, floats.data());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(floats[i], 1.5F) << n;
    EXPECT_EQ(floats[n], -1);
    halves.push_back(std::byte{0});
    halves.push_back(std::byte{0x3E});
  }
}

}  // namespace
}  // namespace gbcompress
