#pragma once
/// How long a step takes on many ranks, from rates measured on one. docs/scaling.md writes the
/// formulas down, checks them against measured steps, and says where they err.

#include <cstdint>
#include <span>
#include <vector>

#include "gbcompress/bench.h"
#include "gbcompress/export.h"
#include "gbcompress/model_plan.h"

namespace GBC_API gbcompress {

/// What one rank computes and copies a second.
struct RankRates {
  std::vector<EngineRates> banks;    ///< one a bank of the plan
  double copy_bytes_per_second = 0;  ///< bytes read plus bytes written; above 0
};
/// @param seconds  to spend on each bank's shape
/// @throws Error(kUsage)
RankRates measure_rank_rates(const ModelPlan& plan, double seconds = 0.2);

/// The link of each rank: a message of B bytes takes latency + B / bytes_per_second, both
/// directions at once.
struct Link {
  double bytes_per_second = 0;  ///< above 0
  double latency_seconds = 0;   ///< 0 or more
};

struct ScalingCase {
  int world = 1;
  Link link;
  /// The model's own forward and backward pass over this rank's part of a batch.
  double model_seconds = 0;
};

/// One step of the slowest rank.
struct StepPrediction {
  double seconds = 0;              ///< of the whole step
  double compute_seconds = 0;      ///< g-nets, copies, AdamW
  double link_seconds = 0;         ///< that the link is busy
  double wait_seconds = 0;         ///< that nothing is computed because something travels
  std::int64_t busiest_bytes = 0;  ///< sent by the rank that sends most
  std::int64_t all_bytes = 0;      ///< sent by all ranks together
};
/// @param placements  kOwner or kReplicated, one a bank
/// @throws Error(kUsage) for numbers out of range
StepPrediction predict_step(const ModelPlan& plan, const RankRates& rates,
                            std::span<const Placement> placements, const ScalingCase& scaling);

/// What `auto` would choose for each bank.
std::vector<Placement> choose_placements(const ModelPlan& plan, const RankRates& rates,
                                         const ScalingCase& scaling);

}  // namespace gbcompress
