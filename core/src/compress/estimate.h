#pragma once
/// What the plan of a call costs.

#include "compress/compress_run.h"

namespace gbcompress {

/// The call's plan with the choices of training and the cost; takes a step to time it, and leaves
/// the model as it is. [collective]
CompressionPlan estimated_plan(CompressRun& call);

}  // namespace gbcompress
