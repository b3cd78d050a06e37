#pragma once
/// Sizes for a quality drop: one ratio after another, each from the model's first values. No
/// LibTorch.

#include "compress/methods/method.h"

namespace gbcompress {

/// The file of the largest ratio tried whose drop on the held-out split is at most plan.max_drop;
/// if none is, of the last one, with a note. A resumed run skips the attempts that it has behind
/// it.
/// @param cheap  an attempt trains nothing, so that the bracket is cut further
Candidate largest_ratio_within_drop(const CompressionPlan& plan, TrainingRun& run, bool cheap);

}  // namespace gbcompress
