#include <ATen/Parallel.h>

#include <boost/program_options.hpp>
#include <iostream>

#include "exit_status.h"
#include "gbcompress/bench.h"
#include "gbcompress/error.h"
#include "numbers.h"
#include "plan.h"
#include "table.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

struct Row {
  int world;
  StepPrediction owner, replicated, chosen;
  std::vector<Placement> placements;
};

/// "replicated", or "3 owner, 1 replicated" where banks differ.
std::string choice_text(const std::vector<Placement>& placements) {
  std::int64_t owner = 0;
  for (const Placement placement : placements) owner += placement == Placement::kOwner;
  const auto all = static_cast<std::int64_t>(placements.size());
  if (all == 0) return "-";
  if (owner == 0 || owner == all) return std::string(placement_name(placements.front()));
  return std::to_string(owner) + " owner, " + std::to_string(all - owner) + " replicated";
}

std::vector<Row> simulate(const ModelPlan& plan, const RankRates& rates, ScalingCase scaling,
                          int largest) {
  std::vector<Row> rows;
  for (int world = 1;; world = std::min(2 * world, largest)) {
    scaling.world = world;
    const auto all = [&](Placement placement) {
      return predict_step(plan, rates, std::vector<Placement>(plan.banks.size(), placement),
                          scaling);
    };
    Row row{world,
            all(Placement::kOwner),
            all(Placement::kReplicated),
            {},
            choose_placements(plan, rates, scaling)};
    row.chosen = predict_step(plan, rates, row.placements, scaling);
    rows.push_back(std::move(row));
    if (world == largest) return rows;
  }
}

ordered_json prediction_json(const StepPrediction& step) {
  return {{"seconds", step.seconds},           {"compute_seconds", step.compute_seconds},
          {"link_seconds", step.link_seconds}, {"wait_seconds", step.wait_seconds},
          {"bytes_all_ranks", step.all_bytes}, {"bytes_busiest_rank", step.busiest_bytes}};
}

ordered_json report_json(const std::string& file, const ModelPlan& plan, const RankRates& rates,
                         const ScalingCase& scaling, const std::vector<Row>& rows) {
  ordered_json banks = ordered_json::array(), worlds = ordered_json::array();
  for (std::size_t b = 0; b < plan.banks.size(); ++b)
    banks.push_back({{"gnets", plan.banks[b].gnets},
                     {"weights", plan.banks[b].weights},
                     {"parameters", plan.banks[b].parameters()},
                     {"forward_weights_per_second", rates.banks[b].forward_weights_per_second},
                     {"backward_weights_per_second", rates.banks[b].backward_weights_per_second},
                     {"adamw_parameters_per_second", rates.banks[b].adamw_parameters_per_second}});
  for (const Row& row : rows) {
    ordered_json choices = ordered_json::array();
    for (const Placement placement : row.placements) choices.push_back(placement_name(placement));
    worlds.push_back({{"world", row.world},
                      {"owner", prediction_json(row.owner)},
                      {"replicated", prediction_json(row.replicated)},
                      {"auto", prediction_json(row.chosen)},
                      {"auto_placements", choices}});
  }
  return {{"file", file},
          {"trainable", plan.trainable},
          {"gnet_parameters", plan.gnet_parameters},
          {"plain_parameters", plan.plain_parameters},
          {"bytes_per_second", scaling.link.bytes_per_second},
          {"latency_seconds", scaling.link.latency_seconds},
          {"micro_batch_seconds", scaling.model_seconds},
          {"threads", at::get_num_threads()},
          {"copy_bytes_per_second", rates.copy_bytes_per_second},
          {"banks", banks},
          {"worlds", worlds}};
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fixed(1e6 * seconds, 0) + " us";
  return seconds < 1 ? fixed(1e3 * seconds, 2) + " ms" : fixed(seconds, 2) + " s";
}

void print_report(const std::string& file, const ModelPlan& plan, const RankRates& rates,
                  const std::vector<Row>& rows) {
  std::cout << printable(file) << ": " << with_commas(plan.trainable) << " parameters, "
            << with_commas(plan.gnet_parameters) << " of g-nets and "
            << with_commas(plan.plain_parameters) << " plain ones\n\nMeasured here, "
            << at::get_num_threads() << (at::get_num_threads() == 1 ? " thread" : " threads")
            << " a process:\n";
  Table measured;
  measured.row({"bank", "g-nets", "weights", "forward M/s", "backward M/s", "AdamW M/s"});
  for (std::size_t b = 0; b < plan.banks.size(); ++b)
    measured.row({std::to_string(b), with_commas(plan.banks[b].gnets),
                  with_commas(plan.banks[b].weights),
                  fixed(rates.banks[b].forward_weights_per_second / 1e6, 0),
                  fixed(rates.banks[b].backward_weights_per_second / 1e6, 0),
                  fixed(rates.banks[b].adamw_parameters_per_second / 1e6, 0)});
  Table table;
  table.row({"world", "owner", "waiting", "bytes each", "replicated", "waiting", "bytes each",
             "auto", "chooses"});
  for (const Row& row : rows)
    table.row({std::to_string(row.world), seconds_text(row.owner.seconds),
               seconds_text(row.owner.wait_seconds), rough_bytes(row.owner.busiest_bytes),
               seconds_text(row.replicated.seconds), seconds_text(row.replicated.wait_seconds),
               rough_bytes(row.replicated.busiest_bytes), seconds_text(row.chosen.seconds),
               row.world == 1 ? "-" : choice_text(row.placements)});
  std::cout << measured.text() << "\nPredicted, per step:\n" << table.text();
}

}  // namespace

int plan_with_torch(const Arguments& arguments) {
  if (!arguments.has("model")) throw Error(Errc::kUsage, "name the model: --model FILE");
  const std::string file = arguments.text("model");
  if (!arguments.has("simulate")) {
    for (const char* option : {"bandwidth", "latency", "micro-batch-seconds", "threads"})
      if (arguments.has(option))
        throw Error(Errc::kUsage, std::string("--") + option + " needs --simulate");
    show_plan(arguments, file);
    return kDone;
  }
  if (!arguments.has("bandwidth"))
    throw Error(Errc::kUsage, "give the bandwidth between processes: --bandwidth 25GB/s");
  ScalingCase scaling;
  scaling.link.bytes_per_second = parse_bandwidth(arguments.text("bandwidth"), "--bandwidth");
  scaling.link.latency_seconds =
      arguments.has("latency") ? parse_seconds(arguments.text("latency"), "--latency") : 20e-6;
  if (arguments.has("micro-batch-seconds"))
    scaling.model_seconds =
        parse_seconds(arguments.text("micro-batch-seconds"), "--micro-batch-seconds");
  if (arguments.has("threads"))
    at::set_num_threads(parse_number(arguments.text("threads"), "--threads", 1, 1024));
  const int largest = world_of(arguments, 64);

  const ModelPlan plan = plan_file(arguments, file);
  const RankRates rates = measure_rank_rates(plan);
  const std::vector<Row> rows = simulate(plan, rates, scaling, largest);
  if (arguments.json())
    print_json(report_json(file, plan, rates, scaling, rows));
  else
    print_report(file, plan, rates, rows);
  return kDone;
}

}  // namespace gbcompress::cli
