// Names of the options' choices, as settings and messages spell them.
#include "base/glob.h"
#include "gbcompress/options.h"
#include "gbcompress/plan.h"

namespace gbcompress {

std::string_view loss_name(Loss loss) noexcept {
  switch (loss) {
    case Loss::kTask:
      return "task";
    case Loss::kDistill:
      return "distill";
    case Loss::kWeights:
      return "weights";
  }
  return "task";
}

std::string_view effort_name(Effort effort) noexcept {
  switch (effort) {
    case Effort::kFast:
      return "fast";
    case Effort::kBalanced:
      return "balanced";
    case Effort::kMax:
      return "max";
  }
  return "max";
}

std::string_view mode_name(WeightMode mode) noexcept {
  switch (mode) {
    case WeightMode::kGenerated:
      return "generated";
    case WeightMode::kQuantized:
      return "quantized";
    case WeightMode::kExact:
      return "exact";
  }
  return "";
}

WeightMode mode_of(const std::string& name, const BottleneckOptions& options) {
  WeightMode mode = options.mode;
  for (const LayerRule& rule : options.layers)
    if ((rule.mode || rule.bits || rule.max_error) && matches_glob(rule.match, name))
      mode = rule.mode.value_or(WeightMode::kQuantized);
  return mode;
}

std::vector<TensorTarget> tensor_targets(const BottleneckOptions& options) {
  std::vector<TensorTarget> targets;
  for (const LayerRule& rule : options.layers)
    if (rule.bits || rule.max_error) targets.push_back({rule.match, rule.bits, rule.max_error});
  return targets;
}

std::string_view placement_name(Placement placement) noexcept {
  switch (placement) {
    case Placement::kAuto:
      return "auto";
    case Placement::kOwner:
      return "owner";
    case Placement::kReplicated:
      return "replicated";
  }
  return "";
}

}  // namespace gbcompress
