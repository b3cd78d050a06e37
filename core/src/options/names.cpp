// Names of the options' choices, as settings and messages spell them.
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

std::string_view mode_name(WeightMode mode) noexcept {
  switch (mode) {
    case WeightMode::kGenerated:
      return "generated";
    case WeightMode::kResidual:
      return "residual";
    case WeightMode::kRaw:
      return "raw";
  }
  return "";
}

std::optional<WeightMode> parse_mode(std::string_view name) noexcept {
  for (const WeightMode m : {WeightMode::kGenerated, WeightMode::kResidual, WeightMode::kRaw})
    if (mode_name(m) == name) return m;
  return std::nullopt;
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
