#pragma once
/// How fast this machine and the engine are. No LibTorch.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class Registry;

/// What the processor and its memory can do, with at::get_num_threads() threads at once: the best
/// samples, as nothing but other programs makes them slower.
struct MachineRates {
  int threads = 1;
  std::string isa;                   ///< what the fused kernel runs on: "AVX3_ZEN4", "AVX2", "NEON"
  double fma_per_second = 0;         ///< float32 multiply-adds, every lane counted
  double copy_bytes_per_second = 0;  ///< bytes read plus bytes written, beyond the last cache
};

/// Vector-lane operations that the arithmetic of one weight takes (performance.md). A
/// multiply-add counts once, and so does a maximum, a comparison or an addition.
struct WeightOperations {
  double forward = 0;
  double backward = 0;
};
/// @param hidden  widths of the hidden layers, 1 or more
WeightOperations weight_operations(const std::vector<std::int64_t>& hidden);

/// Restricts the fused kernel, and the rates of measure_engine(), to an instruction set and those
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

}  // namespace gbcompress
