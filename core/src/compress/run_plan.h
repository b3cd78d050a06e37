#pragma once
/// Executes a plan: its methods from the cheapest to the most expensive. No LibTorch.

#include "compress/training_run.h"
#include "gbcompress/plan.h"

namespace gbcompress {

struct PlanResult {
  Method method = Method::kDataFree;  ///< that made the file
  std::string reason;                 ///< why that one, where cheaper ones were tried; one line
  Candidate made;
};

/// The file of the first method that suffices: it has the target size, and its expanded model has
/// no measurable quality drop on the held-out split. The last method's file is taken in any case,
/// and the last one's that was tried where no time is left for the next. [collective]
PlanResult run_plan(const CompressionPlan& plan, TrainingRun& run);

}  // namespace gbcompress
