#pragma once
/// The methods of quantization from the cheapest to the most expensive: data-free, calibrated,
/// trained.

#include <optional>

#include "compress/search.h"

namespace gbcompress {

/// For jobs that try cheaper methods than training, prepared. Data-free, then calibrated: the first
/// whose file has the target size and whose expanded model has no measurable quality drop on the
/// held-out split; with Effort::kFast, or no time left, calibrated in any case. Unset: training is
/// needed; the model then has its first values, and the reason is in the report. [collective]
std::optional<Outcome> cheapest_without_training(Job& job);

}  // namespace gbcompress
