#include "compress/methods/methods.h"

namespace gbcompress {

Candidate FixedRateMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  run.make(plan.max_bytes);
  return run.candidate();
}

}  // namespace gbcompress
