#pragma once
/// Options of an optimizer, and learning-rate schedules. No LibTorch.

#include <cstdint>
#include <optional>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class OptimizerRule : std::uint8_t {
  kAdamW,  ///< Loshchilov and Hutter, arXiv 1711.05101
  kSgd,    ///< stochastic gradient descent with momentum, as torch.optim.SGD without dampening
};
std::string_view optimizer_name(OptimizerRule rule) noexcept;  ///< "adamw", "sgd"

/// Defaults of torchGB.
struct AdamWOptions {
  double lr = 1e-3;
  double momentum = 0.9;  ///< of AdamW: decay of the first moment
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< decoupled; of SGD: added to the gradient
  OptimizerRule optimizer = OptimizerRule::kAdamW;
};

enum class Schedule : std::uint8_t {
  kConstant,
  kCosine,       ///< linear warm-up over the first tenth, then half a cosine to 0
  kOneCycle,     ///< cosine from 1/25 up to 1 over the first tenth, cosine down to 1/250,000
  kStep,         ///< torch.optim's StepLR: from time to time the rate is multiplied by a factor
  kEpochCosine,  ///< torch.optim's CosineAnnealingLR, stepped once per epoch
};
/// "constant", "cosine", "one_cycle", "step", "epoch_cosine"
std::string_view schedule_name(Schedule schedule) noexcept;
/// What the schedules of whole epochs take beside the step.
struct EpochSchedule {
  std::int64_t steps = 1;   ///< of an epoch, at least 1
  std::int64_t epochs = 1;  ///< kStep: between two reductions; kEpochCosine: of half a period
  double factor = 0.1;      ///< kStep: of a reduction; kEpochCosine: the least; 0 to 1
};

/// Factor on the learning rate of step `step` of `total`, 0 <= step < total. Above 0, except for
/// kStep and kEpochCosine with a factor of 0: kCosine would reach 0 one step behind the last.
/// @throws Error(kUsage) for a step outside
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t total,
                       const EpochSchedule& epochs = {});

}  // namespace gbcompress
