#include "bottleneck/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace gbcompress {
namespace {

/// What each rank has to do.
std::vector<double> load_of(const std::vector<BankLoad>& banks,
                            const std::vector<std::vector<std::int64_t>>& rows, int world) {
  std::vector<double> load(static_cast<std::size_t>(world), 0);
  for (std::size_t b = 0; b < banks.size(); ++b)
    for (std::size_t r = 0; r < load.size(); ++r)
      load[r] += static_cast<double>(rows[b][r + 1] - rows[b][r]) * banks[b].cost;
  return load;
}

const std::vector<BankLoad> kBanks = {{7, 10}, {1, 1000}, {31, 160}, {0, 5}, {13, 160}, {2, 999}};

TEST(ShareOut, GivesEveryGNetOneOwner) {
  for (int world = 1; world <= 9; ++world) {
    const auto rows = share_out(kBanks, world);
    ASSERT_EQ(rows.size(), kBanks.size());
    for (std::size_t b = 0; b < rows.size(); ++b) {
      ASSERT_EQ(rows[b].size(), static_cast<std::size_t>(world) + 1);
      EXPECT_EQ(rows[b].front(), 0);
      EXPECT_EQ(rows[b].back(), kBanks[b].gnets);
      EXPECT_TRUE(std::is_sorted(rows[b].begin(), rows[b].end()));
    }
  }
}

// Largest first leaves no rank further above the least loaded one than its last g-net costs, and
// the last ones are cheap: with plenty of g-nets the spread is that of the cheapest bank.
TEST(ShareOut, IsBalanced) {
  for (int world = 2; world <= 8; ++world) {
    const auto load = load_of(kBanks, share_out(kBanks, world), world);
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, 1000) << world;
    const std::vector<BankLoad> many = {{200, 160}, {300, 7}, {1000, 1}};
    const auto even = load_of(many, share_out(many, world), world);
    const auto [low, high] = std::minmax_element(even.begin(), even.end());
    EXPECT_LE(*high - *low, 1) << world;
  }
}

// The classic bound of largest-first (Graham 1969): 4/3 - 1/(3 world) of the best there is, which
// is at least the mean and at least one g-net.
TEST(ShareOut, IsWithinGrahamsBound) {
  for (int world = 1; world <= 12; ++world) {
    const auto load = load_of(kBanks, share_out(kBanks, world), world);
    double most_costly = 0;
    for (const BankLoad& bank : kBanks)
      if (bank.gnets > 0) most_costly = std::max(most_costly, bank.cost);
    const double best =
        std::max(most_costly, std::accumulate(load.begin(), load.end(), 0.0) / world);
    EXPECT_LE(*std::max_element(load.begin(), load.end()), (4.0 / 3) * best) << world;
  }
}

TEST(ShareOut, IsTheSameEveryTimeAndGivesTiesToTheLowestRank) {
  for (int world : {1, 2, 3, 4, 8}) EXPECT_EQ(share_out(kBanks, world), share_out(kBanks, world));
  using Rows = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(share_out({{5, 1}}, 4), (Rows{{0, 2, 3, 4, 5}}));
  EXPECT_EQ(share_out({{1, 1}, {1, 2}}, 2), (Rows{{0, 0, 1}, {0, 1, 1}}));
  EXPECT_EQ(share_out({{1, 1}}, 3), (Rows{{0, 1, 1, 1}}));
  EXPECT_EQ(share_out({}, 3), Rows{});
}

PlacementCase some_case() {
  return {.compute_seconds = 0.01,
          .weight_bytes = 20'000'000,
          .theta_bytes = 1'000'000,
          .bytes_per_second = 1e9,
          .world = 4};
}

TEST(ChoosePlacement, FollowsTheFormulas) {
  const PlacementCase c = some_case();
  EXPECT_DOUBLE_EQ(owner_seconds(c), 0.01 / 4 + 2 * 20e6 * 3 / 4 / 1e9);
  EXPECT_DOUBLE_EQ(replicated_seconds(c), 0.01 + 2 * 1e6 * 3 / 4 / 1e9);
}

TEST(ChoosePlacement, ReplicatesOnSlowLinksAndOwnsOnFastOnes) {
  PlacementCase c = some_case();
  c.bytes_per_second = 12.5e6;  // 100 Mbit/s
  EXPECT_EQ(choose_placement(c).placement, Placement::kReplicated);
  c.bytes_per_second = 1e12;
  EXPECT_EQ(choose_placement(c).placement, Placement::kOwner);
  // Where both take the same, sending less is better.
  c.bytes_per_second = 2.0 * (c.weight_bytes - c.theta_bytes) / c.compute_seconds;
  EXPECT_NEAR(owner_seconds(c), replicated_seconds(c), 1e-12);
  c.bytes_per_second *= 0.99;
  EXPECT_EQ(choose_placement(c).placement, Placement::kReplicated);
  c.bytes_per_second *= 1.02;
  EXPECT_EQ(choose_placement(c).placement, Placement::kOwner);
}

TEST(ChoosePlacement, SaysWhy) {
  const std::string reason = choose_placement(some_case()).reason;
  EXPECT_TRUE(reason.starts_with("replicated: ")) << reason;
  for (const char* part : {"32.5 ms as owner", "11.5 ms replicated", "computing alone 10 ms",
                           "20 MB of weights", "1 MB of g-nets", "1e+03 MB/s"})
    EXPECT_NE(reason.find(part), std::string::npos) << part << " in: " << reason;
}

}  // namespace
}  // namespace gbcompress
