#include "weights_estimate.h"

#include "compress_options.h"
#include "exit_status.h"
#include "present.h"

namespace gbcompress::cli {

int print_estimate(const Arguments& arguments, const Settings& settings,
                   const TensorBundle& tensors, const WeightsOptions& options) {
  const WeightsEstimate estimate = estimate_weights(tensors, options);
  CompressionPlan plan = request_plan(arguments, settings);
  plan.cost = {.least_bytes = estimate.least_bytes,
               .most_bytes = estimate.most_bytes,
               .memory_bytes = estimate.memory_bytes,
               .least_minutes = estimate.seconds / 60,
               .minutes = estimate.seconds / 60};
  if (arguments.json())
    print_json(to_json(plan));
  else
    print_plan(plan, default_target_text(settings), estimate.weights);
  return kDone;
}

}  // namespace gbcompress::cli
