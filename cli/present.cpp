#include "present.h"

#include <algorithm>
#include <iostream>

#include "metric_text.h"
#include "stored_table.h"
#include "table.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

std::string bits_per_weight(std::int64_t bytes, std::int64_t weights) {
  return fixed(
      8 * static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(weights, 1)), 2);
}

std::string rough_time(double seconds) {
  return seconds < 90 ? fixed(seconds, 1) + " s" : fixed(seconds / 60, 1) + " min";
}

/// Of values beside those of the model. After training on a task other weights do the same job, so
/// that errors of theirs say nothing.
bool has_errors(const CompressionReport& report) { return report.attempts == 0 || !report.metric; }

void add_size_rows(Table& table, const CompressionReport& report) {
  table.row({"", "original", "compressed"});
  table.row({"bytes on disk", with_commas(report.input_bytes), with_commas(report.output_bytes)});
  table.row({"ratio", "1.00", fixed(report.ratio(), 2)});
  if (report.draft) {
    const std::int64_t bytes = report.draft->output_bytes;
    const double ratio = static_cast<double>(report.input_bytes) / static_cast<double>(bytes);
    table.row({"draft, bytes", "", with_commas(bytes) + ", ratio " + fixed(ratio, 2)});
    table.row({"exact part, bytes", "", with_commas(report.output_bytes - bytes)});
    table.row({"error of the draft", "", short_number(report.draft->total_error)});
  }
  table.row({"weights", with_commas(report.parameters),
             with_commas(report.gnet_parameters + report.plain_parameters)});
  table.row({"bits per weight", bits_per_weight(report.input_bytes, report.parameters),
             bits_per_weight(report.output_bytes, report.parameters)});
}

void add_quality_rows(Table& table, const CompressionReport& report) {
  if (report.metric) {
    table.row({metric_heading(*report.metric), metric_text(*report.metric, report.before),
               metric_text(*report.metric, report.after)});
    if (report.top5_before && report.top5_after)
      table.row({"among the best five", metric_text(*report.metric, *report.top5_before),
                 metric_text(*report.metric, *report.top5_after)});
    if (report.last_exit)
      table.row({"at the last exit", "", metric_text(*report.metric, *report.last_exit)});
  } else {
    table.row({"test quality", "", "not evaluated (no data)"});
  }
  if (report.change_error) {
    table.row({"as in the base", "",
               with_commas(report.unchanged) + " of " +
                   with_commas(static_cast<std::int64_t>(report.asked_tensors().size())) +
                   " tensors"});
    table.row({"weight error", "of the change", short_number(*report.change_error)});
  }
  if (!report.metric && report.weight_error > 0)
    table.row({report.change_error ? "" : "weight error",
               report.change_error ? "of the tensors" : "0", short_number(report.weight_error)});
  if (has_errors(report)) add_stored_rows(table, report.asked_tensors());
}

void add_method_rows(Table& table, const CompressionReport& report, const std::string& target) {
  if (!target.empty()) table.row({"target", "", target});
  if (report.plan.methods.size() > 1) table.row({"plan", "", report.plan.method_text()});
  table.row({"method", "", report.method});
  if (!report.allocation.empty()) table.sentence("step sizes from", report.allocation);
  if (report.attempts > 0 && report.lambda > 0)
    table.row({"trained", "",
               std::to_string(report.attempts) + " times, lambda " + short_number(report.lambda)});
  if (report.corrected_norms > 0)
    table.row({"batch norms corrected", "", std::to_string(report.corrected_norms)});
  table.row({"seconds", "", fixed(report.seconds, 1)});
  table.row({"peak memory", "", rough_bytes(report.peak_memory_bytes)});
  if (report.world > 1) {
    table.row({"processes", "", std::to_string(report.world)});
    table.row({"sent by each per step", "",
               rough_bytes(static_cast<std::int64_t>(report.bytes_per_step))});
  }
}

ordered_json training_json(const TrainOptions& train, double learning_rate, double step_speed) {
  return {{"loss", loss_name(train.loss)},
          {"labels", train.labels},
          {"epochs", train.epochs},
          {"batch", train.batch},
          {"learning_rate", learning_rate},
          {"step_speed", step_speed},
          {"shift", train.shift},
          {"flip", train.flip},
          {"first_lambda", train.rate.lambda}};
}

/// Empty where no effort was made: the plan is one file.
std::string_view effort_text(const CompressionPlan& plan) {
  return plan.attempts > 0 || plan.compares_files ? effort_name(plan.effort) : std::string_view();
}

ordered_json plan_json(const CompressionPlan& plan) {
  ordered_json methods = ordered_json::array();
  for (const Method method : plan.methods) methods.push_back(plan.name(method));
  return {{"holds", plan.content_text()},
          {"methods", methods},
          {"effort", effort_text(plan)},
          {"attempts", plan.attempts},
          {"epochs", plan.attempts > 0 ? plan.train.epochs : 0},
          {"training_samples", plan.training_samples},
          {"held_out", plan.held_out}};
}

ordered_json metric_json(const CompressionReport& report) {
  if (!report.metric) return nullptr;
  ordered_json json = {{"name", metric_name(*report.metric)},
                       {"before", report.before},
                       {"after", report.after},
                       {"drop", metric_drop(*report.metric, report.before, report.after)}};
  if (report.top5_before) json["top5_before"] = *report.top5_before;
  if (report.top5_after) json["top5_after"] = *report.top5_after;
  if (report.last_exit) json["last_exit"] = *report.last_exit;
  return json;
}

/// Of the draft and of what follows it.
ordered_json layers_json(const WeightsReport& draft, std::int64_t output_bytes) {
  return {{"draft_bytes", draft.output_bytes},
          {"exact_bytes", output_bytes - draft.output_bytes},
          {"draft_identity", draft.identity},
          {"draft_error", draft.total_error},
          {"draft_tensors", stored_json(draft.tensors)}};
}

void add_training_rows(Table& table, const CompressionPlan& plan) {
  const TrainOptions& train = plan.train;
  std::string loss(loss_name(train.loss));
  if (train.loss == Loss::kDistill && train.labels > 0)
    loss += ", labels " + short_number(train.labels);
  table.row({"loss", loss});
  table.row({"training samples", with_commas(plan.training_samples)});
  if (plan.held_out > 0) table.row({"held-out samples", with_commas(plan.held_out)});
  table.row({"attempts at most", std::to_string(plan.attempts)});
  table.row({"epochs of the first attempt", with_commas(train.epochs)});
  table.row({"batch size", with_commas(train.batch)});
  table.row({"learning rate", short_number(plan.learning_rate)});
  const bool quantized = plan.holds == WeightMode::kQuantized;
  if (quantized) table.row({"step size learning rate factor", short_number(plan.step_speed)});
  table.row({"random shift, pixels",
             std::to_string(train.shift) + (train.flip ? ", and horizontal flip" : "")});
  if (quantized) table.row({"first lambda", short_number(train.rate.lambda)});
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

}  // namespace

ordered_json to_json(const CompressionReport& report, const Request& request) {
  ordered_json json = {
      {"output", request.output},
      {"input_bytes", report.input_bytes},
      {"output_bytes", report.output_bytes},
      {"ratio", report.ratio()},
      {"metric", metric_json(report)},
      {"parameters", report.parameters},
      {"gnet_parameters", report.gnet_parameters},
      {"plain_parameters", report.plain_parameters},
      {"generated_tensors", report.generated_tensors},
      {"weight_error", report.weight_error},
      {"plan", plan_json(report.plan)},
      {"method", report.method},
      {"method_reason", report.method_reason},
      {"allocation", report.allocation},
      {"corrected_norms", report.corrected_norms},
      {"attempts", report.attempts},
      {"attempt_taken", report.attempt_taken},
      {"lambda", report.lambda},
      {"training", report.attempts > 0
                       ? training_json(report.train, report.learning_rate, report.step_speed)
                       : ordered_json(nullptr)},
      {"seconds", report.seconds},
      {"peak_memory_bytes", report.peak_memory_bytes},
      {"target_default", request.default_target},
      {"target_met", report.target_met},
      {"target_note", report.target_note},
      {"notes", report.notes},
      {"identity", report.identity},
      {"tensors", stored_json(report.tensors)},
      {"world", report.world},
      {"bytes_per_step", report.bytes_per_step}};
  if (report.change_error) {
    json["change_error"] = *report.change_error;
    json["unchanged_tensors"] = report.unchanged;
  }
  json["settings"] = ordered_json::parse(request.settings);
  if (report.draft) json["layers"] = layers_json(*report.draft, report.output_bytes);
  return json;
}

void print_report(const CompressionReport& report, const Request& request, bool verbose) {
  Table table;
  add_size_rows(table, report);
  add_quality_rows(table, report);
  add_method_rows(table, report, request.default_target);
  std::cout << table.text();
  if (verbose) {
    if (!report.asked_tensors().empty())
      std::cout << "\n" << stored_listing(report.asked_tensors());
    if (!report.description.empty()) std::cout << "\n" << report.description;
    std::cout << "sha256 " << report.identity << "\n";
  }
  if (!report.method_reason.empty())
    std::cout << "\n" << report.method << ": " << report.method_reason << "\n";
  if (!report.attempt_taken.empty()) std::cout << "\n" << report.attempt_taken << "\n";
  std::cout << "\nwritten to " << request.shown << "\n";
}

ordered_json to_json(const CompressionPlan& plan) {
  const CompressionCost& cost = *plan.cost;
  const bool trains = plan.attempts > 0;
  return {{"dry_run", true},
          {"plan", plan_json(plan)},
          {"method", plan.method_text()},
          {"effort", effort_text(plan)},
          {"training", trains ? training_json(plan.train, plan.learning_rate, plan.step_speed)
                              : ordered_json(nullptr)},
          {"training_samples", plan.training_samples},
          {"held_out", plan.held_out},
          {"attempts", plan.attempts},
          {"steps", cost.steps},
          {"expected_bytes", {cost.least_bytes, cost.most_bytes}},
          {"memory_bytes", cost.memory_bytes},
          {"least_minutes", cost.least_minutes},
          {"minutes", cost.minutes}};
}

void print_plan(const CompressionPlan& plan, const std::string& default_target,
                std::int64_t weights) {
  Table table;
  table.row({"", "plan"});
  table.row({"file holds", std::string(plan.content_text())});
  table.row({"method", plan.method_text()});
  if (!default_target.empty()) table.row({"target", default_target});
  if (weights > 0) table.row({"weights", with_commas(weights)});
  if (plan.attempts > 0) add_training_rows(table, plan);
  add_cost_rows(table, *plan.cost);
  std::cout << table.text() << "\nnothing was written\n";
}

}  // namespace gbcompress::cli
