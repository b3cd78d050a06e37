#include "gbcompress/ranks.h"

#include <algorithm>
#include <bit>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Whether two neighbors are the children of one node.
bool siblings(ShardRange left, ShardRange right) {
  return left.count == right.count && left.first + left.count == right.first &&
         left.first % (2 * left.count) == 0;
}

void add_into(std::span<float> left, std::span<const float> right) {
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
}

}  // namespace

ShardRange shards_of(int rank, int world, int shards) {
  if (shards < 1 || shards > kMaxShards || !std::has_single_bit(static_cast<unsigned>(shards)))
    throw Error(Errc::kUsage, "the number of shards is " + std::to_string(shards) +
                                  "; use a power of two up to " + std::to_string(kMaxShards));
  if (shards < world)
    throw Error(Errc::kUsage, std::to_string(shards) + " shards cannot be shared by " +
                                  std::to_string(world) + " ranks; use fewer ranks or more shards");
  const int first = shards * rank / world;
  return {first, shards * (rank + 1) / world - first};
}

std::vector<ShardRange> subtrees(ShardRange range) {
  std::vector<ShardRange> result;
  while (range.count > 0) {
    int size = 1;
    while (range.first % (2 * size) == 0 && 2 * size <= range.count) size *= 2;
    result.push_back({range.first, size});
    range = {range.first + size, range.count - size};
  }
  return result;
}

FixedSum::FixedSum(std::int64_t elements, ShardRange own) : elements_(elements), own_(own) {}

void FixedSum::add(std::span<const float> shard) {
  if (static_cast<std::int64_t>(shard.size()) != elements_)
    throw Error(Errc::kShapeMismatch, "a shard has " + std::to_string(shard.size()) +
                                          " elements where the sum has " +
                                          std::to_string(elements_));
  if (complete())
    throw Error(Errc::kUsage,
                "this rank has given all of its " + std::to_string(own_.count) + " shards already");
  open_.push_back({own_.first + added_++, 1});
  sums_.emplace_back(shard.begin(), shard.end());
  while (open_.size() > 1 && siblings(open_[open_.size() - 2], open_.back())) {
    add_into(sums_[sums_.size() - 2], sums_.back());
    open_[open_.size() - 2].count *= 2;
    open_.pop_back();
    sums_.pop_back();
  }
}

const std::vector<std::vector<float>>& FixedSum::nodes() const {
  if (!complete())
    throw Error(Errc::kUsage, "only " + std::to_string(added_) + " of this rank's " +
                                  std::to_string(own_.count) + " shards have been added");
  return sums_;
}

void add_tree(std::vector<std::pair<ShardRange, std::span<float>>> nodes, std::span<float> into) {
  std::vector<std::pair<ShardRange, std::span<float>>> open;
  for (const auto& node : nodes) {
    open.push_back(node);
    while (open.size() > 1 && siblings(open[open.size() - 2].first, open.back().first)) {
      add_into(open[open.size() - 2].second, open.back().second);
      open[open.size() - 2].first.count *= 2;
      open.pop_back();
    }
  }
  if (open.size() != 1 || open.front().first.first != 0 ||
      open.front().second.size() != into.size())
    throw Error(Errc::kShapeMismatch, "the shards of all ranks do not make up one tree");
  std::ranges::copy(open.front().second, into.begin());
}

}  // namespace gbcompress
