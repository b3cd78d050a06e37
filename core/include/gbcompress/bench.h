#pragma once
/// How fast this machine and the engine are, and predicted times of models too large to load. No
/// LibTorch.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/gnet.h"
#include "gbcompress/model_plan.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// different things alternate, so that a noisy moment hits all of them.

class Registry;
struct NamedParameter;

/// What the processor and its memory can do, with at::get_num_threads() threads at once: the best
/// samples, as nothing but other programs makes them slower.
struct MachineRates {
  int threads = 1;
  std::string isa;                   ///< what the fused kernel runs on: "AVX3_ZEN4", "AVX2", "NEON"
  double fma_per_second = 0;         ///< float32 multiply-adds, every lane counted
  double copy_bytes_per_second = 0;  ///< bytes read plus bytes written, beyond the last cache
};
/// @param seconds  to spend, above 0; about 0.1 is enough on a quiet machine
/// @throws Error(kUsage)
MachineRates measure_machine(double seconds = 0.2);

/// What g-nets of one shape cost here, for planning: medians of samples.
struct EngineRates {
  double forward_weights_per_second = 0;
  double backward_weights_per_second = 0;
  double adamw_parameters_per_second = 0;
};
/// Runs the fused kernel on about 2^20 weights of whole tiles (one tile at least) with
/// at::get_num_threads() threads.
/// @throws Error(kUsage)
EngineRates measure_engine_rates(const BankShape& shape, double seconds = 0.2);

/// Vector-lane operations that the arithmetic of one weight takes (performance.md). A
/// multiply-add counts once, and so does a maximum, a comparison or an addition.
struct WeightOperations {
  double forward = 0;
  double backward = 0;
};
/// @param hidden  widths of the hidden layers, 1 or more
WeightOperations weight_operations(const std::vector<std::int64_t>& hidden);

/// Restricts the fused kernel, and what measure_machine() measures, to an instruction set and those
/// below it: "AVX2", "SSE4". "" takes the restriction back. [not thread-safe]
/// @throws Error(kUsage) for a name that is not known or that the processor lacks
void restrict_isa(std::string_view name);

/// One rate and what it is of the machine's.
struct EngineRate {
  double weights_per_second = 0;
  double fma_fraction = 0;   ///< weight_operations() a second over fma_per_second
  double copy_fraction = 0;  ///< weights as float32 a second over copy_bytes_per_second
};

/// One model shape through a real GenomicBottleneck.
struct EngineRow {
  std::string shape;
  std::string gnet;          ///< "14-32-1", the most frequent one
  std::int64_t weights = 0;  ///< generated
  std::int64_t tiles = 0;
  std::int64_t gnet_parameters = 0;
  EngineRate forward;   ///< predict_weights()
  EngineRate backward;  ///< backward()
  EngineRate step;      ///< zero_grad, predict_weights, backward, step
  double step_seconds = 0;
  int samples = 0;               ///< behind each median
  std::int64_t model_bytes = 0;  ///< weights and their gradients
  std::int64_t bank_bytes = 0;   ///< g-nets, gradients, both moments
  /// Largest resident size during a step beyond what was resident before it. -1 where the system
  /// does not tell.
  std::int64_t step_extra_bytes = -1;
};

struct EngineOptions {
  /// Names of engine_shapes(), or "ROWSxCOLS" for one fully connected layer. Empty: all.
  std::vector<std::string> shapes;
  double seconds = 2;            ///< to spend on each shape, above 0
  std::string kernel = "fused";  ///< as BottleneckOptions::kernel
};
struct EngineReport {
  MachineRates machine;
  std::string kernel;
  double load_average = 0;  ///< of the last minute, when it began
  std::vector<EngineRow> rows;
};

/// "mnist-mlp", "gpt2-block", "llama-block", "resnet20", "pnas-layer".
std::vector<std::string> engine_shapes();
/// @param types  must claim modules Linear and Conv2d
/// @throws Error(kUsage) for a shape that is not known; Error(kPluginMissing) where no type claims
///         a layer
EngineReport measure_engine(const Registry& types, const EngineOptions& options = {});

// How long a step takes on many ranks, from rates measured on one. scaling.md writes the
// formulas down, checks them against measured steps, and says where they err.

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
