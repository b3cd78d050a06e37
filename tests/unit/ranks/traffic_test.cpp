#include "gbcompress/ranks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace gbcompress {
namespace {

TEST(Wire, RingPassesOnEveryChunkButOneTwice) {
  for (const int world : {2, 3, 4, 7, 8, 64})
    for (const std::int64_t bytes : {4, 8, 1000, 4096, 1 << 20, 100'000'004}) {
      std::int64_t all = 0;
      for (int rank = 0; rank < world; ++rank) {
        const std::int64_t one = wire::all_reduce(bytes, rank, world);
        EXPECT_GE(one, 0);
        EXPECT_LE(one, 2 * bytes);
        all += one;
      }
      EXPECT_EQ(all, 2 * bytes * (world - 1)) << bytes << " bytes, world " << world;
    }
  EXPECT_EQ(wire::all_reduce(1'000'000, 0, 1), 0);
  EXPECT_EQ(wire::all_reduce(0, 1, 2), 0);
  // Balanced where the size divides: every rank 2 (W-1)/W.
  EXPECT_EQ(wire::all_reduce(1 << 20, 3, 4), 2 * (1 << 20) * 3 / 4);
}

TEST(Wire, ScatteredReduceKeepsTheOwnPiece) {
  const std::vector<std::int64_t> pieces = {10, 0, 30};
  EXPECT_EQ(wire::reduce_scatter(pieces, 0), 30);
  EXPECT_EQ(wire::reduce_scatter(pieces, 1), 40);
  EXPECT_EQ(wire::reduce_scatter(pieces, 2), 10);
}

/// An independent way to grow the same tree: in round i, whoever has the data and lies below 2^i
/// (counted from the root) sends it 2^i places on.
std::vector<int> children_by_rounds(int from, int world) {
  std::vector<int> children(static_cast<std::size_t>(world), 0);
  std::set<int> have = {0};
  for (int step = 1; step < world; step *= 2)
    for (const int place : std::set<int>(have))
      if (place + step < world) {
        ++children[static_cast<std::size_t>((place + from) % world)];
        have.insert(place + step);
      }
  EXPECT_EQ(static_cast<int>(have.size()), world);
  return children;
}

TEST(Wire, BroadcastReachesEverybodyOnce) {
  for (const int world : {1, 2, 3, 4, 5, 8, 13, 64})
    for (const int from : {0, world / 2, world - 1}) {
      const auto children = children_by_rounds(from, world);
      for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(wire::broadcast(10, from, rank, world),
                  10 * children[static_cast<std::size_t>(rank)]);
    }
}

TEST(Wire, GatherIsABroadcastOfEachPiece) {
  const std::vector<std::int64_t> pieces = {5, 0, 7, 1000, 3};
  std::int64_t all = 0;
  for (int rank = 0; rank < 5; ++rank) all += wire::all_gather(pieces, rank);
  EXPECT_EQ(all, 4 * std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0}));
}

TEST(Traffic, DifferenceIsWhatHappenedBetween) {
  Traffic before, after;
  before.kinds[1] = {2, 100};
  after.kinds[1] = {5, 170};
  after.kinds[4] = {1, 0};
  const Traffic between = after - before;
  EXPECT_EQ(between[Collective::kReduce], (Traffic::Count{3, 70}));
  EXPECT_EQ(between.bytes(), 70);
  EXPECT_EQ(between.calls(), 4);
  EXPECT_EQ(collective_name(Collective::kAllGather), "all_gather");
}

}  // namespace
}  // namespace gbcompress
