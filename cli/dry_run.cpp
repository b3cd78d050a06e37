#include "dry_run.h"

namespace gbcompress::cli {

namespace {

std::string rough_time(double seconds) {
  return seconds < 90 ? fixed(seconds, 1) + " s" : fixed(seconds / 60, 1) + " min";
}

}  // namespace

void add_cost_rows(Table& table, const DryRun& run) {
  std::string bytes = with_commas(run.most_bytes);
  if (run.least_bytes != run.most_bytes) bytes = with_commas(run.least_bytes) + " to " + bytes;
  table.row({"expected bytes", bytes});
  table.row({"memory, about", rough_bytes(run.memory_bytes)});
  const std::string most = rough_time(run.seconds), least = rough_time(run.least_seconds);
  table.row({"time, about", least == most ? most : least + " to " + most});
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
          {"least_minutes", run.least_seconds / 60},
          {"minutes", run.seconds / 60}};
}

}  // namespace gbcompress::cli
