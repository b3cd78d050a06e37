#include "weights_estimate.h"

#include <iostream>

#include "compress_options.h"
#include "dry_run.h"
#include "exit_status.h"

namespace gbcompress::cli {

int print_estimate(const Arguments& arguments, const Settings& settings,
                   const TensorBundle& tensors, const WeightsOptions& options) {
  const WeightsEstimate estimate = estimate_weights(tensors, options);
  const DryRun run{
      .method = estimate.quantized > 0 ? "quantized weights, data-free" : "exact values",
      .least_bytes = estimate.least_bytes,
      .most_bytes = estimate.most_bytes,
      .memory_bytes = estimate.memory_bytes,
      .least_seconds = estimate.seconds,
      .seconds = estimate.seconds,
      .effort = {},
      .training = {}};
  if (arguments.json()) {
    print_json(to_json(run));
    return kDone;
  }
  Table table;
  table.row({"", "plan"});
  table.row({"file holds", run.method});
  if (const std::string target = default_target_text(settings); !target.empty())
    table.row({"target", target});
  table.row({"weights", with_commas(estimate.weights)});
  add_cost_rows(table, run);
  std::cout << table.text() << "\nnothing was written\n";
  return kDone;
}

}  // namespace gbcompress::cli
