#include "dry_run.h"

namespace gbcompress::cli {

namespace {

std::string rough_time(double seconds) {
  return seconds < 90 ? fixed(seconds, 1) + " s" : fixed(seconds / 60, 1) + " min";
}

}  // namespace

void add_method_rows(Table& table, const CompressionPlan& plan) {
  table.row({"file holds", std::string(plan.content_text())});
  table.row({"method", plan.method_text()});
}

void add_cost_rows(Table& table, const CompressionCost& cost) {
  std::string bytes = with_commas(cost.most_bytes);
  if (cost.least_bytes != cost.most_bytes) bytes = with_commas(cost.least_bytes) + " to " + bytes;
  table.row({"expected bytes", bytes});
  table.row({"memory, about", rough_bytes(cost.memory_bytes)});
  const std::string most = rough_time(60 * cost.minutes),
                    least = rough_time(60 * cost.least_minutes);
  table.row({"time, about", least == most ? most : least + " to " + most});
}

nlohmann::ordered_json plan_json(const CompressionPlan& plan) {
  nlohmann::ordered_json methods = nlohmann::ordered_json::array();
  for (const Method method : plan.methods) methods.push_back(plan.name(method));
  return {{"holds", plan.content_text()},
          {"methods", methods},
          {"effort", plan.attempts > 0 || plan.judged ? effort_name(plan.effort) : ""},
          {"attempts", plan.attempts},
          {"epochs", plan.attempts > 0 ? plan.train.epochs : 0},
          {"training_samples", plan.training_samples},
          {"held_out", plan.held_out}};
}

nlohmann::ordered_json to_json(const DryRun& run) {
  const CompressionPlan& plan = run.plan;
  const CompressionCost& cost = *plan.cost;
  return {{"dry_run", true},
          {"plan", plan_json(plan)},
          {"method", plan.method_text()},
          {"effort", run.training.is_null() ? "" : effort_name(plan.effort)},
          {"training", run.training},
          {"training_samples", plan.training_samples},
          {"held_out", plan.held_out},
          {"attempts", plan.attempts},
          {"steps", cost.steps},
          {"expected_bytes", {cost.least_bytes, cost.most_bytes}},
          {"memory_bytes", cost.memory_bytes},
          {"least_minutes", cost.least_minutes},
          {"minutes", cost.minutes}};
}

}  // namespace gbcompress::cli
