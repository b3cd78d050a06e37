#include "gbcompress/ranks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "support/files.h"

namespace gbcompress {
namespace {

std::vector<std::vector<float>> random_shards(int shards, std::size_t elements) {
  std::mt19937 draw(static_cast<unsigned>(shards));
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> result(static_cast<std::size_t>(shards));
  for (auto& shard : result)
    for (std::size_t i = 0; i < elements; ++i)
      shard.push_back(std::ldexp(normal(draw), static_cast<int>(draw() % 30)));
  return result;
}

/// The tree as it is defined, by recursion.
float tree(const std::vector<std::vector<float>>& shards, std::size_t first, std::size_t count,
           std::size_t i) {
  if (count == 1) return shards[first][i];
  return tree(shards, first, count / 2, i) + tree(shards, first + count / 2, count / 2, i);
}

TEST(FixedSum, BitsAreThoseOfTheTreeInEveryWorld) {
  constexpr std::size_t kElements = 33;
  for (const int shards : {1, 2, 8, 64}) {
    const auto values = random_shards(shards, kElements);
    std::vector<float> expected;
    for (std::size_t i = 0; i < kElements; ++i)
      expected.push_back(tree(values, 0, values.size(), i));
    for (int world = 1; world <= shards; ++world) {
      std::vector<FixedSum> sums;
      std::vector<std::vector<float>> copies;
      std::vector<std::pair<ShardRange, std::span<float>>> nodes;
      for (int rank = 0; rank < world; ++rank) {
        const ShardRange own = shards_of(rank, world, shards);
        FixedSum sum(kElements, own);
        for (int s = own.first; s < own.first + own.count; ++s)
          sum.add(values[static_cast<std::size_t>(s)]);
        const auto ranges = subtrees(own);
        ASSERT_EQ(sum.nodes().size(), ranges.size());
        if ((world & (world - 1)) == 0) {
          EXPECT_EQ(ranges.size(), 1u);
        }
        for (const auto& node : sum.nodes()) copies.push_back(node);
        sums.push_back(std::move(sum));
      }
      std::size_t next = 0;
      for (int rank = 0; rank < world; ++rank)
        for (const ShardRange& range : subtrees(shards_of(rank, world, shards)))
          nodes.emplace_back(range, copies[next++]);
      std::vector<float> result(kElements);
      add_tree(nodes, result);
      EXPECT_EQ(std::memcmp(result.data(), expected.data(), sizeof(float) * kElements), 0)
          << shards << " shards, world " << world;
    }
  }
}

TEST(FixedSum, ShardsAreSharedEvenly) {
  for (const int shards : {1, 4, 4096})
    for (int world = 1; world <= std::min(shards, 9); ++world) {
      int next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const ShardRange own = shards_of(rank, world, shards);
        EXPECT_EQ(own.first, next);
        EXPECT_LE(std::abs(own.count - shards / world), 1);
        next += own.count;
      }
      EXPECT_EQ(next, shards);
    }
  for (const int shards : {0, -2, 3, 12, 8192})
    GBC_EXPECT_ERROR(shards_of(0, 1, shards), Errc::kUsage, "use a power of two");
  GBC_EXPECT_ERROR(shards_of(0, 3, 2), Errc::kUsage, "2 shards cannot be shared by 3 ranks");
}

TEST(FixedSum, Subtrees) {
  const auto expect = [](ShardRange range, std::vector<ShardRange> parts) {
    EXPECT_EQ(subtrees(range), parts);
  };
  expect({0, 8}, {{0, 8}});
  expect({3, 3}, {{3, 1}, {4, 2}});
  expect({0, 0}, {});
  expect({1, 7}, {{1, 1}, {2, 2}, {4, 4}});
  expect({5, 6}, {{5, 1}, {6, 2}, {8, 2}, {10, 1}});
}

TEST(FixedSum, Misuse) {
  FixedSum sum(2, {0, 2});
  const std::vector<float> shard = {1, 2}, longer = {1, 2, 3};
  GBC_EXPECT_ERROR(sum.add(longer), Errc::kShapeMismatch, "3 elements where the sum has 2");
  GBC_EXPECT_ERROR(sum.nodes(), Errc::kUsage, "0 of this rank's 2 shards");
  sum.add(shard);
  sum.add(shard);
  GBC_EXPECT_ERROR(sum.add(shard), Errc::kUsage, "2 shards already");
  EXPECT_EQ(sum.nodes(), (std::vector<std::vector<float>>{{2, 4}}));
  std::vector<float> a = {1}, b = {2}, out = {0};
  GBC_EXPECT_ERROR(add_tree({{{1, 1}, a}, {{2, 1}, b}}, out), Errc::kShapeMismatch, "one tree");
  GBC_EXPECT_ERROR(add_tree({}, out), Errc::kShapeMismatch, "one tree");
  GBC_EXPECT_ERROR(add_tree({{{1, 1}, a}}, out), Errc::kShapeMismatch, "one tree");
}

}  // namespace
}  // namespace gbcompress
