#pragma once
/// Ranks that compute the same numbers, each for itself, notice when they no longer do.

#include <cstdint>

#include "base/internal.h"
#include "gbcompress/bottleneck.h"

namespace GBC_INTERNAL gbcompress {

/// Steps between two comparisons.
inline constexpr std::int64_t kStepsBetweenComparisons = 100;

/// All ranks compare digests of the tensors that each of them computes itself. [collective]
/// @param steps  done so far, for the message
/// @throws Error(kFailure) naming the first tensor that differs, and two ranks
void compare_ranks(const GenomicBottleneck& bottleneck, std::int64_t steps);

}  // namespace gbcompress
