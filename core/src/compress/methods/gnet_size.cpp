#include "compress/methods/drop_sizes.h"
#include "compress/methods/methods.h"

namespace gbcompress {

Candidate GnetSizeMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  if (plan.max_drop) return largest_ratio_within_drop(plan, run, /*cheap=*/false);
  run.make(plan.max_bytes);
  return run.candidate();
}

}  // namespace gbcompress
