#pragma once
/// What the library's own loops need of a bottleneck beside its public functions, in five friends
/// (docs/explanation/adr/0015-friends-of-the-bottleneck.md).

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/ranks.h"
#include "rate/packed_values.h"

namespace GBC_INTERNAL gbcompress {

/// Entry of a training state: the steps in which each layer's g-nets were idle, int64 [layers].
inline constexpr const char* kGnetDelays = "optimizer#gnet_delays";

/// Ranks, and the layers that they make.
struct BottleneckRanks {
  /// Null where there is one process.
  static Group* group(const GenomicBottleneck& bottleneck) noexcept;
  /// One line a bank: where it is computed and why. Empty with one rank.
  static const std::vector<std::string>& placement_notes(const GenomicBottleneck& bottleneck);
  /// As predict_weights(), but after place_with_layers() nothing travels: each rank writes what it
  /// makes.
  static void predict_own_layers(GenomicBottleneck& bottleneck);
  /// Tensors whose values every rank computes itself, indices into tensors(): those that no rank
  /// has for itself after place_with_layers().
  static std::vector<std::size_t> on_every_rank(const GenomicBottleneck& bottleneck);
  /// Until the next place_with_layers() every rank needs all weights again, and steps all plain
  /// parameters. [collective]
  static void leave_layers(GenomicBottleneck& bottleneck);
};

/// The same gradient as backward(), with bits that do not depend on the
/// number of ranks: a batch is cut into a fixed number of shards, each shard's loss is weighted by
/// its part of the batch, and its gradient becomes one leaf of a fixed tree sum. Floating-point
/// buffers are averaged over shards likewise. Every g-net must be replicated.
///   FixedSum sum(BottleneckShards::numbers(bottleneck), shards_of(rank, world, shards));
///   for (each own shard) { zero_grad(); loss.backward(); BottleneckShards::add(bottleneck, sum); }
///   BottleneckShards::reduce(bottleneck, sum, shards);
struct BottleneckShards {
  static std::int64_t numbers(const GenomicBottleneck& bottleneck);
  static void add(GenomicBottleneck& bottleneck, FixedSum& sum);
  /// @param shards  of the whole batch [collective]
  static void reduce(GenomicBottleneck& bottleneck, const FixedSum& sum, int shards);
};

/// Integers of quantized parameters, chosen without training.
struct BottleneckIntegers {
  /// Whether there are quantized parameters.
  static bool any(const GenomicBottleneck& bottleneck) noexcept;
  /// Chooses them, for step sizes of `step` times the deviation^`evenness` of a tensor: 0 for the
  /// least squared error at a size, 1 for the same relative error in every tensor. finish() keeps
  /// them.
  static void quantize(GenomicBottleneck& bottleneck, double step, double evenness,
                       Quantizer quantizer);
  /// Squared error of the integers over the squares of the weights, all quantized parameters
  /// together.
  static double relative_error(const GenomicBottleneck& bottleneck);
  /// About what it would be after quantize() with the nearest integers, from a sample: many times
  /// faster.
  static double expected_error(const GenomicBottleneck& bottleneck, double step, double evenness);
};

/// The rate term of the loss.
struct BottleneckRate {
  /// Refreshes the entropy model with the present integers, as the schedule does a hundred times in
  /// a run.
  static void refresh(GenomicBottleneck& bottleneck);
  /// With a rate weight: "bits" of all quantized weights as the loss counts them, at every tenth
  /// backward(), and "lambda", the rate weight; else nothing.
  static std::map<std::string, double> rate(const GenomicBottleneck& bottleneck);
};

/// The file.
struct BottleneckFile {
  /// What the file of save() has in it, as the bottleneck stands.
  static std::vector<std::byte> encode(const GenomicBottleneck& bottleneck);
};

}  // namespace gbcompress
