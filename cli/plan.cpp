#include "plan.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <numeric>

#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/model_plan.h"
#include "gbcompress/options.h"
#include "load_plugins.h"
#include "model_options.h"
#include "numbers.h"
#include "run_options.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr int kMaxPlannedWorld = 4096;

std::string_view kind_name(PlannedTensor::Kind kind) {
  switch (kind) {
    case PlannedTensor::Kind::kGenerated:
      return "generated";
    case PlannedTensor::Kind::kPlain:
      return "exact";
    case PlannedTensor::Kind::kTied:
      return "tied";
    case PlannedTensor::Kind::kBuffer:
      return "buffer";
  }
  return "";
}

double over(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
}

double parameter_ratio(const ModelPlan& plan) {
  return over(plan.trainable, plan.gnet_parameters + plan.plain_parameters);
}

/// "3", or "3-17" for a run of ranks.
std::string ranks_text(const std::vector<OwnerShare>& shares) {
  if (shares.empty()) return "";
  const std::string first = std::to_string(shares.front().rank);
  return shares.size() == 1 ? first : first + "-" + std::to_string(shares.back().rank);
}

struct Volume {
  std::int64_t all = 0, busiest = 0;
};
Volume volume(const ModelPlan& plan, const std::vector<Placement>& placements, int world) {
  const std::vector<std::int64_t> bytes = step_bytes(plan, placements, world);
  return {std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}),
          *std::max_element(bytes.begin(), bytes.end())};
}
ordered_json volume_json(const Volume& volume) {
  return {{"all_ranks", volume.all}, {"busiest_rank", volume.busiest}};
}

struct Volumes {
  Volume owner, replicated, plain;
};
Volumes volumes(const ModelPlan& plan, int world) {
  const auto all = [&](Placement placement) {
    return std::vector<Placement>(plan.banks.size(), placement);
  };
  return {volume(plan, all(Placement::kOwner), world),
          volume(plan, all(Placement::kReplicated), world), volume(plan, {}, world)};
}

ordered_json tensor_json(const PlannedTensor& tensor, const OwnerRows& rows, int world) {
  ordered_json entry = {{"name", tensor.info.name},
                        {"shape", tensor.info.shape},
                        {"dtype", dtype_name(tensor.info.dtype)},
                        {"module", tensor.info.module_type},
                        {"kind", kind_name(tensor.kind)}};
  if (tensor.kind == PlannedTensor::Kind::kTied) entry["tied_to"] = tensor.tied_to;
  if (!tensor.plan) return entry;
  const GNetPlan& plan = *tensor.plan;
  entry["type"] = plan.type_id;
  entry["tiles"] = plan.grid().tiles();
  entry["tile_shape"] = {plan.tile_rows, plan.tile_cols};
  entry["generator"] = generator_text(plan);
  entry["bank"] = tensor.bank;
  entry["parameters"] = plan_parameters(plan);
  entry["ratio"] = over(tensor.info.elements(), plan_parameters(plan));
  if (world == 1) return entry;
  ordered_json owners = ordered_json::array();
  for (const OwnerShare& share : owners_of(tensor, rows))
    owners.push_back({{"rank", share.rank}, {"gnets", share.gnets}});
  entry["owners"] = owners;
  return entry;
}

void print_plan_json(const fs::path& file, const ModelPlan& plan, int world) {
  const OwnerRows rows = owner_rows(plan, world);
  ordered_json tensors = ordered_json::array(), banks = ordered_json::array();
  for (const PlannedTensor& tensor : plan.tensors)
    tensors.push_back(tensor_json(tensor, rows, world));
  for (const PlannedBank& bank : plan.banks)
    banks.push_back({{"gnets", bank.gnets},
                     {"tile_shape", {bank.shape.tile_rows, bank.shape.tile_cols}},
                     {"weights", bank.weights},
                     {"parameters", bank.parameters()}});
  ordered_json report = {{"file", file.string()},
                         {"world", world},
                         {"trainable", plan.trainable},
                         {"gnet_parameters", plan.gnet_parameters},
                         {"plain_parameters", plan.plain_parameters},
                         {"parameter_ratio", parameter_ratio(plan)}};
  if (world > 1) {
    const Volumes sent = volumes(plan, world);
    report["bytes_per_step"] = {{"owner", volume_json(sent.owner)},
                                {"replicated", volume_json(sent.replicated)},
                                {"plain_alone", volume_json(sent.plain)}};
  }
  report["banks"] = banks;
  report["tensors"] = tensors;
  print_json(report);
}

void print_plan(const fs::path& file, const ModelPlan& plan, int world) {
  const OwnerRows rows = owner_rows(plan, world);
  Table table(5);
  std::vector<std::string> head = {"name",  "shape",      "type", "tiles",
                                   "g-net", "parameters", "ratio"};
  if (world > 1) head.push_back("ranks");
  table.row(head);
  for (const PlannedTensor& tensor : plan.tensors) {
    std::vector<std::string> row = {printable(tensor.info.name), shape_text(tensor.info.shape)};
    if (tensor.plan) {
      const GNetPlan& of = *tensor.plan;
      const std::string tiles = with_commas(of.grid().tiles()) + " of " +
                                std::to_string(of.tile_rows) + "x" + std::to_string(of.tile_cols);
      row.insert(row.end(), {printable(of.type_id), tiles, generator_text(of),
                             with_commas(plan_parameters(of)),
                             fixed(over(tensor.info.elements(), plan_parameters(of)), 2)});
      if (world > 1) row.push_back(ranks_text(owners_of(tensor, rows)));
    } else {
      const bool tied = tensor.kind == PlannedTensor::Kind::kTied;
      row.insert(row.end(),
                 {std::string(kind_name(tensor.kind)), tied ? "= " + printable(tensor.tied_to) : "",
                  "", tied ? "0" : with_commas(tensor.info.elements()), ""});
    }
    table.row(row);
  }
  std::cout << printable(file.string()) << "\n\n"
            << table.text() << "\n"
            << with_commas(plan.trainable) << " parameters become "
            << with_commas(plan.gnet_parameters) << " of g-nets and "
            << with_commas(plan.plain_parameters) << " plain ones, ratio "
            << fixed(parameter_ratio(plan), 2) << "\n";
  if (world == 1) return;
  const Volumes sent = volumes(plan, world);
  Table bytes;
  bytes.row({"bytes per step, world " + std::to_string(world), "all ranks", "busiest rank"});
  const auto line = [&](const char* name, const Volume& of) {
    bytes.row({name, with_commas(of.all), with_commas(of.busiest)});
  };
  line("owner", sent.owner);
  line("replicated", sent.replicated);
  line("plain parameters, in both", sent.plain);
  std::cout << "\n" << bytes.text();
}

ModelPlan plan_file(const Arguments& arguments, const fs::path& file) {
  Settings settings = settings_below_flags(arguments);
  say_unused(arguments, settings, {"gnet.", "weights.", "layer."}, "a plan of g-nets");
  // A plan is one of g-nets.
  BottleneckOptions& options = settings.compress.bottleneck;
  if (settings.compress.choose.mode) options.mode = WeightMode::kGenerated;
  PluginHost host;
  load_plugins(host, arguments);
  return plan_model(
      list_parameters(file, arguments.text("arch"), host.registry(), model_options(arguments)),
      host.registry(), options);
}

}  // namespace

void show_plan(const Arguments& arguments, const fs::path& file) {
  const int world = arguments.has("world")
                        ? parse_number(arguments.text("world"), "--world", 1, kMaxPlannedWorld)
                        : 1;
  const ModelPlan plan = plan_file(arguments, file);
  if (arguments.json())
    print_plan_json(file, plan, world);
  else
    print_plan(file, plan, world);
}

}  // namespace gbcompress::cli
