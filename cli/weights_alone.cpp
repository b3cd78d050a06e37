#include "weights_alone.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "event_file.h"
#include "exit_status.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"
#include "gbcompress/weights.h"
#include "model_folders.h"
#include "model_options.h"
#include "report.h"
#include "run_options.h"
#include "stored_table.h"
#include "table.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

/// Rules that leave a parameter as integers or exact, whatever else they say.
bool wants_gnets(const BottleneckOptions& options) {
  return options.gnet_prior ||
         std::any_of(options.layers.begin(), options.layers.end(), [](const LayerRule& rule) {
           return rule.mode == WeightMode::kGenerated || rule.prior == true;
         });
}

WeightsOptions weights_options(const Arguments& arguments, const Settings& settings,
                               std::int64_t input_bytes) {
  const CompressOptions& run = settings.compress;
  WeightsOptions options{.measure = run.train.rate.measure,
                         .quantiser = run.train.rate.quantiser,
                         .arch = arguments.text("arch"),
                         .settings = settings.changes_json(),
                         .overwrite = arguments.has("force"),
                         .threads = static_cast<int>(settings.threads)};
  if (run.bottleneck.mode != WeightMode::kRaw) {
    options.max_bytes = run.target.max_bytes;
    options.max_error = run.target.max_error;
    if (run.target.ratio)
      options.max_bytes = static_cast<std::int64_t>(static_cast<double>(input_bytes) /
                                                    std::max(*run.target.ratio, 1e-9));
  }
  for (const LayerRule& rule : run.bottleneck.layers)
    if (rule.mode == WeightMode::kRaw) options.exact.push_back(rule.match);
  return options;
}

struct Cost {
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;
};

Cost cost_since(std::chrono::steady_clock::time_point start) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<std::int64_t>(usage.ru_maxrss) * 1024};
}

void print_table(const WeightsReport& report, const std::string& output, std::int64_t input_bytes,
                 const Cost& cost, bool verbose) {
  const bool exact = std::all_of(report.tensors.begin(), report.tensors.end(),
                                 [](const StoredTensor& tensor) { return tensor.error == 0; });
  Table table;
  table.row({"", "original", "compressed"});
  table.row({"bytes on disk", with_commas(input_bytes), with_commas(report.output_bytes)});
  table.row(
      {"ratio", "1.00",
       fixed(static_cast<double>(input_bytes) / static_cast<double>(report.output_bytes), 2)});
  table.row({"numbers", with_commas(report.parameters), with_commas(report.parameters)});
  table.row({"test quality", "-", "not evaluated"});
  if (!exact) table.row({"steps follow", "", "the weights alone"});
  add_stored_rows(table, report.tensors);
  table.row({"seconds", "", fixed(cost.seconds, 1)});
  table.row({"peak memory", "", rough_bytes(cost.peak_memory_bytes)});
  std::cout << table.text();
  if (verbose)
    std::cout << "\n" << stored_listing(report.tensors) << "sha256 " << report.identity << "\n";
  std::cout << "\nwritten to " << printable(output) << "\n";
}

ordered_json to_json(const WeightsReport& report, const std::string& output,
                     std::int64_t input_bytes, const Cost& cost, const Settings& settings) {
  return {{"output", output},
          {"input_bytes", input_bytes},
          {"output_bytes", report.output_bytes},
          {"ratio", static_cast<double>(input_bytes) / static_cast<double>(report.output_bytes)},
          {"metric", nullptr},
          {"parameters", report.parameters},
          {"weight_error", report.total_error},
          {"seconds", cost.seconds},
          {"peak_memory_bytes", cost.peak_memory_bytes},
          {"target_met", report.target_met},
          {"target_note", report.target_note},
          {"identity", report.identity},
          {"tensors", stored_json(report.tensors)},
          {"settings", ordered_json::parse(settings.to_json())}};
}

}  // namespace

std::optional<TensorBundle> weights_that_suffice(const Arguments& arguments,
                                                 const Settings& settings) {
  const CompressOptions& run = settings.compress;
  for (const char* option : {"data", "from-scratch", "resume", "checkpoint", "dry-run"})
    if (arguments.has(option)) return {};
  if (arguments.words().empty() || arguments.has("plugin") || wants_gnets(run.bottleneck) ||
      run.bottleneck.mode == WeightMode::kGenerated || run.train.loss != Loss::kWeights ||
      run.target.max_drop || launch_of(arguments).world > 1)
    return {};
  const std::filesystem::path model = arguments.words()[0];
  const FileKind kind = sniff(model);
  // What only models know (and messages about them) is the other path's: TorchScript, architectures
  // of plugins, tensors that do not fit.
  if (kind == FileKind::kTorchScript || kind == FileKind::kArtifact) return {};
  TensorBundle tensors = open_tensors(model, model_options(arguments));
  const std::string arch = arguments.text("arch");
  if (!arch.empty() && !fits_layout(tensors, arch)) return {};
  return tensors;
}

int compress_weights_alone(const Arguments& arguments, const Settings& settings,
                           TensorBundle tensors) {
  const auto start = std::chrono::steady_clock::now();
  const bool overwrite = arguments.has("force");
  FolderOutput output(arguments.words()[0], arguments.text("output"), "model.gbz");
  output.say_what_stays(arguments);
  writing([&] { output.check(overwrite); });
  Report page(arguments, "compress", arguments.words()[0]);
  const auto log = event_log(arguments);
  say_notes(arguments, tensors.notes);
  std::vector<std::string> names;
  for (const TensorEntry& tensor : tensors.tensors) names.push_back(tensor.name);
  say_notes(arguments, idle_rule_warnings(settings.compress.bottleneck.layers, names));
  const std::int64_t input_bytes = tensors.file_bytes;
  WeightsOptions options = weights_options(arguments, settings, input_bytes);
  std::optional<BaseModel> base;
  if (arguments.has("base")) options.base = &base.emplace(BaseModel::open(arguments.text("base")));
  if (!options.arch.empty()) tensors = arranged(tensors, options);
  const WeightsReport report = writing([&] {
    output.begin(overwrite);
    WeightsReport written = compress_weights(tensors, output.file(), options);
    output.finish();
    return written;
  });
  const Cost cost = cost_since(start);
  if (log) log_result(*log, "result", report.output_bytes, report.tensors);
  ordered_json result;
  if (arguments.json() || page.wanted())
    result = to_json(report, output.file(), input_bytes, cost, settings);
  if (arguments.json())
    print_json(result);
  else
    print_table(report, output.file(), input_bytes, cost, arguments.verbose());
  if (page.wanted()) {
    page.show(ArtifactReader::open(output.file()), TensorSource::of(std::move(tensors)));
    page.write(std::move(result));
  }
  if (report.target_met) return kDone;
  say("the target was not met: " + report.target_note);
  return kTargetMissed;
}

}  // namespace gbcompress::cli
