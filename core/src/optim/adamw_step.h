#pragma once
/// One step of an optimizer over float32 numbers, for the processor at hand. No LibTorch.

#include <cstdint>

#include "base/internal.h"
#include "gbcompress/schedule.h"

namespace GBC_INTERNAL gbcompress {

/// What all numbers of a step have in common.
struct AdamWStep {
  float decay = 1;        ///< weights are multiplied by 1 - lr * weight_decay
  float mean_part = 0;    ///< 1 - momentum
  float square_keep = 0;  ///< beta2
  float square_part = 0;  ///< 1 - beta2
  float rate = 0;         ///< lr / (1 - momentum^t)
  float correction = 1;   ///< 1 / sqrt(1 - beta2^t)
  float eps = 0;
};

/// x, first and second [count] become those of the next step. Each number is computed by itself and
/// rounded after each operation: the bits depend neither on the processor nor on where a buffer, or
/// a thread's part of it, begins and ends.
void adamw_step(const AdamWStep& step, float* x, const float* gradient, float* first, float* second,
                std::int64_t count);

/// Of SGD with momentum.
struct SgdStep {
  float decay = 0;     ///< of the weights, added to the gradient
  float momentum = 0;  ///< factor on the velocity
  float rate = 0;
};

/// x and velocity [count] become those of the next step, with the guarantee of adamw_step().
void sgd_step(const SgdStep& step, float* x, const float* gradient, float* velocity,
              std::int64_t count);

/// What the options give for one step.
/// @param lr     options.lr times the factor of the step
/// @param steps  number of the step, 1 or more
AdamWStep adamw_factors(const AdamWOptions& options, double lr, std::int64_t steps);
SgdStep sgd_factors(const AdamWOptions& options, double lr);

/// @throws Error(kUsage) naming the option that is out of range
void check_optimizer(const AdamWOptions& options);
void check_lr_factor(double lr_factor);

}  // namespace gbcompress
