#pragma once
/// Sums whose bits do not depend on how many ranks compute them. No LibTorch.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// The work of a step is cut into a fixed number of shards, a power of two, whatever the world.
// Shard sums are leaves of one binary tree, and every inner node is left + right in float32. A
// rank owns neighboring leaves and adds up the largest whole subtrees among them; the nodes that
// are left are exchanged and added in the same tree. For a power-of-two world each rank sends one
// node, so that this costs no more bytes than an ordinary all_reduce.

/// A run of shards: [first, first + count).
struct ShardRange {
  int first = 0;
  int count = 0;
  bool operator==(const ShardRange&) const = default;
};

inline constexpr int kMaxShards = 4096;

/// The shards of one rank; all ranks' ranges follow each other and differ in size by one at most.
/// @throws Error(kUsage): `shards` is no power of two up to kMaxShards, or fewer than ranks
ShardRange shards_of(int rank, int world, int shards);

/// The largest whole subtrees that make up a range, from left to right.
std::vector<ShardRange> subtrees(ShardRange range);

class FixedSum {
 public:
  /// @param elements  of one shard's sum, at least 0
  /// @param own  this rank's shards
  FixedSum(std::int64_t elements, ShardRange own);
  /// The next shard of this rank. Memory: one buffer for each open subtree, log2(shards) + 1 at
  /// most.
  /// @throws Error(kShapeMismatch), Error(kUsage) when all are there already
  void add(std::span<const float> shard);
  std::int64_t elements() const noexcept { return elements_; }
  ShardRange own() const noexcept { return own_; }
  bool complete() const noexcept { return added_ == own_.count; }
  /// The sums of subtrees(own()). @throws Error(kUsage) before all shards are there
  const std::vector<std::vector<float>>& nodes() const;

 private:
  std::int64_t elements_;
  ShardRange own_;
  int added_ = 0;
  std::vector<ShardRange> open_;
  std::vector<std::vector<float>> sums_;
};

/// Adds up all nodes of the tree, in shard order, to its root.
/// @param nodes  consecutive subtrees that cover all shards, each with its sum; sums are used as
///               scratch memory
/// @param into  the root's sum
/// @throws Error(kShapeMismatch) where they do not make up one tree
void add_tree(std::vector<std::pair<ShardRange, std::span<float>>> nodes, std::span<float> into);

}  // namespace gbcompress
