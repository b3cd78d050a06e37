#include "model_gnets.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <numeric>

#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/model_gnets.h"
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

constexpr int kMostProcesses = 4096;

std::string_view kind_name(GNetTensor::Kind kind) {
  switch (kind) {
    case GNetTensor::Kind::kGenerated:
      return "generated";
    case GNetTensor::Kind::kPlain:
      return "exact";
    case GNetTensor::Kind::kTied:
      return "tied";
    case GNetTensor::Kind::kBuffer:
      return "buffer";
  }
  return "";
}

double over(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
}

double parameter_ratio(const ModelGNets& gnets) {
  return over(gnets.trainable, gnets.gnet_parameters + gnets.plain_parameters);
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
Volume volume(const ModelGNets& gnets, const std::vector<Placement>& placements, int world) {
  const std::vector<std::int64_t> bytes = step_bytes(gnets, placements, world);
  return {std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}),
          *std::max_element(bytes.begin(), bytes.end())};
}
ordered_json volume_json(const Volume& volume) {
  return {{"all_ranks", volume.all}, {"busiest_rank", volume.busiest}};
}

struct Volumes {
  Volume owner, replicated, plain;
};
Volumes volumes(const ModelGNets& gnets, int world) {
  const auto all = [&](Placement placement) {
    return std::vector<Placement>(gnets.banks.size(), placement);
  };
  return {volume(gnets, all(Placement::kOwner), world),
          volume(gnets, all(Placement::kReplicated), world), volume(gnets, {}, world)};
}

ordered_json tensor_json(const GNetTensor& tensor, const OwnerRows& rows, int world) {
  ordered_json entry = {{"name", tensor.info.name},
                        {"shape", tensor.info.shape},
                        {"dtype", dtype_name(tensor.info.dtype)},
                        {"module", tensor.info.module_type},
                        {"kind", kind_name(tensor.kind)}};
  if (tensor.kind == GNetTensor::Kind::kTied) entry["tied_to"] = tensor.tied_to;
  if (!tensor.spec) return entry;
  const GNetSpec& spec = *tensor.spec;
  entry["type"] = spec.type_id;
  entry["tiles"] = spec.grid().tiles();
  entry["tile_shape"] = {spec.tile_rows, spec.tile_cols};
  entry["generator"] = generator_text(spec);
  entry["bank"] = tensor.bank;
  entry["parameters"] = spec_parameters(spec);
  entry["ratio"] = over(tensor.info.elements(), spec_parameters(spec));
  if (world == 1) return entry;
  ordered_json owners = ordered_json::array();
  for (const OwnerShare& share : owners_of(tensor, rows))
    owners.push_back({{"rank", share.rank}, {"gnets", share.gnets}});
  entry["owners"] = owners;
  return entry;
}

void print_gnets_json(const fs::path& file, const ModelGNets& gnets, int world) {
  const OwnerRows rows = owner_rows(gnets, world);
  ordered_json tensors = ordered_json::array(), banks = ordered_json::array();
  for (const GNetTensor& tensor : gnets.tensors)
    tensors.push_back(tensor_json(tensor, rows, world));
  for (const GNetBank& bank : gnets.banks)
    banks.push_back({{"gnets", bank.gnets},
                     {"tile_shape", {bank.shape.tile_rows, bank.shape.tile_cols}},
                     {"weights", bank.weights},
                     {"parameters", bank.parameters()}});
  ordered_json report = {{"file", file.string()},
                         {"world", world},
                         {"trainable", gnets.trainable},
                         {"gnet_parameters", gnets.gnet_parameters},
                         {"plain_parameters", gnets.plain_parameters},
                         {"parameter_ratio", parameter_ratio(gnets)}};
  if (world > 1) {
    const Volumes sent = volumes(gnets, world);
    report["bytes_per_step"] = {{"owner", volume_json(sent.owner)},
                                {"replicated", volume_json(sent.replicated)},
                                {"plain_alone", volume_json(sent.plain)}};
  }
  report["banks"] = banks;
  report["tensors"] = tensors;
  print_json(report);
}

void print_gnets(const fs::path& file, const ModelGNets& gnets, int world) {
  const OwnerRows rows = owner_rows(gnets, world);
  Table table(5);
  std::vector<std::string> head = {"name",  "shape",      "type", "tiles",
                                   "g-net", "parameters", "ratio"};
  if (world > 1) head.push_back("ranks");
  table.row(head);
  for (const GNetTensor& tensor : gnets.tensors) {
    std::vector<std::string> row = {printable(tensor.info.name), shape_text(tensor.info.shape)};
    if (tensor.spec) {
      const GNetSpec& of = *tensor.spec;
      const std::string tiles = with_commas(of.grid().tiles()) + " of " +
                                std::to_string(of.tile_rows) + "x" + std::to_string(of.tile_cols);
      row.insert(row.end(), {printable(of.type_id), tiles, generator_text(of),
                             with_commas(spec_parameters(of)),
                             fixed(over(tensor.info.elements(), spec_parameters(of)), 2)});
      if (world > 1) row.push_back(ranks_text(owners_of(tensor, rows)));
    } else {
      const bool tied = tensor.kind == GNetTensor::Kind::kTied;
      row.insert(row.end(),
                 {std::string(kind_name(tensor.kind)), tied ? "= " + printable(tensor.tied_to) : "",
                  "", tied ? "0" : with_commas(tensor.info.elements()), ""});
    }
    table.row(row);
  }
  std::cout << printable(file.string()) << "\n\n"
            << table.text() << "\n"
            << with_commas(gnets.trainable) << " parameters become "
            << with_commas(gnets.gnet_parameters) << " of g-nets and "
            << with_commas(gnets.plain_parameters) << " plain ones, ratio "
            << fixed(parameter_ratio(gnets), 2) << "\n";
  if (world == 1) return;
  const Volumes sent = volumes(gnets, world);
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

ModelGNets gnets_of_file(const Arguments& arguments, const fs::path& file) {
  Settings settings = settings_below_flags(arguments);
  say_unused(arguments, settings, {"gnet.", "weights.", "layer."}, "a list of g-nets");
  // Without a mode, all parameters that a layer type takes get g-nets.
  BottleneckOptions& options = settings.compress.bottleneck;
  if (settings.compress.choose.mode) options.mode = WeightMode::kGenerated;
  PluginHost host;
  load_plugins(host, arguments);
  return model_gnets(
      list_parameters(file, arguments.text("arch"), host.registry(), model_options(arguments)),
      host.registry(), options);
}

}  // namespace

void show_gnets(const Arguments& arguments, const fs::path& file) {
  const int world = arguments.has("world")
                        ? parse_number(arguments.text("world"), "--world", 1, kMostProcesses)
                        : 1;
  const ModelGNets gnets = gnets_of_file(arguments, file);
  if (arguments.json())
    print_gnets_json(file, gnets, world);
  else
    print_gnets(file, gnets, world);
}

}  // namespace gbcompress::cli
