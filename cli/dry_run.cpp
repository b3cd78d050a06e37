#include "dry_run.h"

namespace gbcompress::cli {

void add_cost_rows(Table& table, const DryRun& run) {
  std::string bytes = with_commas(run.most_bytes);
  if (run.least_bytes != run.most_bytes) bytes = with_commas(run.least_bytes) + " to " + bytes;
  table.row({"expected bytes", bytes});
  table.row({"memory, about", rough_bytes(run.memory_bytes)});
  table.row({"time, about", run.seconds < 90 ? fixed(run.seconds, 1) + " s"
                                             : fixed(run.seconds / 60, 1) + " min"});
}

nlohmann::ordered_json to_json(const DryRun& run) {
  return {{"dry_run", true},
          {"method", run.method},
          {"effort", run.effort},
          {"training", run.training},
          {"training_samples", run.training_samples},
          {"held_out", run.held_back},
          {"attempts", run.attempts},
          {"steps", run.steps},
          {"expected_bytes", {run.least_bytes, run.most_bytes}},
          {"memory_bytes", run.memory_bytes},
          {"minutes", run.seconds / 60}};
}

}  // namespace gbcompress::cli
