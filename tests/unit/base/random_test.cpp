#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace gbcompress {
namespace {

using Counter = std::array<std::uint32_t, 4>;

// The three philox4x32-10 lines of Random123's kat_vectors.
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, EveryPartOfTheKeyMatters) {
  std::set<std::uint32_t> first;
  first.insert(RandomStream(1, "init", "fc", 0).bits(0));
  first.insert(RandomStream(2, "init", "fc", 0).bits(0));
  first.insert(RandomStream(1, "shuffle", "fc", 0).bits(0));
  first.insert(RandomStream(1, "init", "fd", 0).bits(0));
  first.insert(RandomStream(1, "init", "fc", 1).bits(0));
  first.insert(RandomStream(1, "initf", "c", 0).bits(0));
  EXPECT_EQ(first.size(), 6u);
  EXPECT_EQ(RandomStream(1, "init", "fc").bits(77), RandomStream(1, "init", "fc").bits(77));
}

TEST(RandomStream, ANumberDependsOnItsIndexAlone) {
  const RandomStream stream(3, "init", "fc");
  std::vector<float> all(101), part(40);
  stream.fill_normal(all, 2.0f, 0.5f);
  stream.fill_normal(part, 2.0f, 0.5f, 33);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], all[33 + i]);
  EXPECT_EQ(all[5], 2.0f + 0.5f * stream.normal(5));
}

TEST(RandomStream, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  const RandomStream stream(4, "init");
  constexpr int kCount = 200'000;
  double sum = 0, square = 0, fourth = 0, neighbours = 0;
  double before = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = stream.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x, square += x * x, fourth += x * x * x * x, neighbours += x * before;
    before = x;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(square / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(neighbours / kCount, 0, 5 / std::sqrt(kCount));
}

TEST(RandomStream, PermutationsHoldEveryNumberOnce) {
  for (const std::int64_t n : {0, 1, 2, 3, 10, 1000}) {
    auto order = RandomStream(5, "shuffle").permutation(n);
    ASSERT_EQ(order.size(), static_cast<std::size_t>(n));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_NE(RandomStream(5, "shuffle", "", 0).permutation(100),
            RandomStream(5, "shuffle", "", 1).permutation(100));
}

TEST(RandomStream, AllPermutationsOfFourAreAboutAsLikely) {
  std::vector<int> seen(256, 0);
  constexpr int kCount = 24'000;
  for (int step = 0; step < kCount; ++step) {
    const auto order =
        RandomStream(6, "shuffle", "", static_cast<std::uint64_t>(step)).permutation(4);
    ++seen[static_cast<std::size_t>(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
  }
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](int n) { return n > 0; }), 24);
  for (const int n : seen)
    if (n > 0) {
      EXPECT_NEAR(n, 1000, 160);  // five standard deviations
    }
}

}  // namespace
}  // namespace gbcompress
