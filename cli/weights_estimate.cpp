#include "weights_estimate.h"

#include <iostream>

#include "compress_options.h"
#include "dry_run.h"
#include "exit_status.h"

namespace gbcompress::cli {

int print_estimate(const Arguments& arguments, const Settings& settings,
                   const TensorBundle& tensors, const WeightsOptions& options) {
  const WeightsEstimate estimate = estimate_weights(tensors, options);
  DryRun run{request_plan(arguments, settings), {}};
  run.plan.cost = {.least_bytes = estimate.least_bytes,
                   .most_bytes = estimate.most_bytes,
                   .memory_bytes = estimate.memory_bytes,
                   .least_minutes = estimate.seconds / 60,
                   .minutes = estimate.seconds / 60};
  if (arguments.json()) {
    print_json(to_json(run));
    return kDone;
  }
  Table table;
  table.row({"", "plan"});
  add_method_rows(table, run.plan);
  if (const std::string target = default_target_text(settings); !target.empty())
    table.row({"target", target});
  table.row({"weights", with_commas(estimate.weights)});
  add_cost_rows(table, *run.plan.cost);
  std::cout << table.text() << "\nnothing was written\n";
  return kDone;
}

}  // namespace gbcompress::cli
