#include "compress/methods/drop_sizes.h"
#include "compress/methods/methods.h"

namespace gbcompress {

Candidate DataFreeMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  return plan.max_drop ? largest_ratio_within_drop(plan, run, /*cheap=*/true) : run.data_free();
}

}  // namespace gbcompress
