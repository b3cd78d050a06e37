#include "base/normal_inversion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gbcompress {
namespace {

std::vector<float> drawn(const RandomStream& stream, std::uint64_t first, std::size_t count) {
  std::vector<float> numbers(count);
  fill_normal_by_inversion(stream, first, numbers);
  return numbers;
}

TEST(NormalInversion, GivesTheQuantileOfTheWord) {
  const RandomStream stream(1, "test");
  constexpr std::size_t kCount = 200'000;
  const std::vector<float> z = drawn(stream, 0, kCount);
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double u = (static_cast<double>(stream.bits(i) >> 8) + 0.5) * 0x1p-24;
    const double phi = 0.5 * std::erfc(-z[i] / std::sqrt(2.0));
    const double density = std::exp(-0.5 * z[i] * z[i]) / std::sqrt(2 * std::acos(-1.0));
    worst = std::max(worst, std::abs(phi - u) / density);  // in units of the number itself
  }
  EXPECT_LT(worst, 2e-6);
}

TEST(NormalInversion, HasTheMomentsOfANormal) {
  const RandomStream stream(2, "test", "layer", 7);
  constexpr std::size_t kCount = 1'000'000;
  double sum = 0, squares = 0, fourth = 0, beyond = 0, neighbours = 0, last = 0;
  for (const float z : drawn(stream, 12'345, kCount)) {
    sum += z;
    squares += double{z} * z;
    fourth += std::pow(double{z}, 4);
    beyond += std::abs(z) > 3;
    neighbours += z * last;
    last = z;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.004);
  EXPECT_NEAR(squares / kCount, 1, 0.006);
  EXPECT_NEAR(fourth / kCount, 3, 0.05);
  EXPECT_NEAR(beyond / kCount, 0.0026998, 0.0002);
  EXPECT_NEAR(neighbours / kCount, 0, 0.004);
}

TEST(NormalInversion, ARangeMayBeCutAnywhere) {
  const RandomStream stream(3, "test");
  const std::vector<float> whole = drawn(stream, 1, 3000);
  for (const std::size_t cut : {1u, 2u, 3u, 7u, 16u, 1023u, 1024u, 1025u, 2999u}) {
    std::vector<float> parts = drawn(stream, 1, cut);
    for (const float z : drawn(stream, 1 + cut, 3000 - cut)) parts.push_back(z);
    EXPECT_EQ(parts, whole) << cut;
  }
}

}  // namespace
}  // namespace gbcompress
