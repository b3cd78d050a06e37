// Names of the options' choices, as settings and messages spell them.
#include "base/glob.h"
#include "gbcompress/options.h"

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

std::optional<Loss> parse_loss(std::string_view name) noexcept {
  for (Loss loss : {Loss::kTask, Loss::kDistill, Loss::kWeights})
    if (loss_name(loss) == name) return loss;
  return std::nullopt;
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

std::optional<Effort> parse_effort(std::string_view name) noexcept {
  for (const Effort effort : {Effort::kFast, Effort::kBalanced, Effort::kMax})
    if (effort_name(effort) == name) return effort;
  return std::nullopt;
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

std::optional<WeightMode> parse_mode(std::string_view name) noexcept {
  for (const WeightMode m : {WeightMode::kGenerated, WeightMode::kQuantized, WeightMode::kExact})
    if (mode_name(m) == name) return m;
  if (name == "residual") return WeightMode::kQuantized;  // names of version 0.1
  if (name == "raw") return WeightMode::kExact;
  return std::nullopt;
}

WeightMode mode_of(const std::string& name, const BottleneckOptions& options) {
  WeightMode mode = options.mode;
  for (const LayerRule& rule : options.layers)
    if (rule.mode && matches_glob(rule.match, name)) mode = *rule.mode;
  return mode;
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

std::optional<Placement> parse_placement(std::string_view name) noexcept {
  for (const Placement p : {Placement::kAuto, Placement::kOwner, Placement::kReplicated})
    if (placement_name(p) == name) return p;
  return std::nullopt;
}

}  // namespace gbcompress
