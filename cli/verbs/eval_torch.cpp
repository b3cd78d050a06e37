#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/artifact.h"
#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"
#include "idle_options.h"
#include "input.h"
#include "load_plugins.h"
#include "metric_text.h"
#include "model_options.h"
#include "numbers.h"
#include "open_weights.h"
#include "progress.h"
#include "report.h"
#include "run_options.h"
#include "table.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
using nlohmann::ordered_json;
namespace {

/// Tensors and histograms of what was measured.
void show_file(Report& page, const fs::path& file, bool artifact, const OpenOptions& options) {
  if (artifact) {
    const ArtifactReader reader = ArtifactReader::open(file);
    page.list(TensorSource::of(reader));
    page.show(reader);
  } else if (sniff(file) != FileKind::kTorchScript) {
    const TensorSource source = TensorSource::of(open_tensors(file, options));
    page.list(source);
    page.show(source);
  }
}

/// Outputs are compared with those of the original.
Data targets_of_original(Data data, const Arguments& arguments, const Registry& registry) {
  if (data.has_targets) return data;
  if (!arguments.has("model"))
    throw Error(Errc::kUsage,
                "these data hold no targets, so outputs are compared with the original's; give it "
                "with --model FILE, or use `gbcompress compare`");
  const auto original = open_model(arguments.text("model"), arguments.text("arch"), registry,
                                   model_options(arguments));
  return answered(*original, std::move(data));
}

/// What one exit, or the whole model, answers to held-out data.
struct Evaluated {
  std::string exit;  ///< "1", or "end" for the whole model
  double value = 0, seconds = 0;
  std::optional<double> top5;
};

Evaluated evaluated(Model& model, const Data& data, std::int64_t exit, bool quiet) {
  model.take_exit(exit);
  ProgressDisplay display(quiet);
  const auto start = std::chrono::steady_clock::now();
  Evaluated result{exit == 0 ? "end" : std::to_string(exit)};
  const Quality quality = measure(model, data.test, data.metric, display.sink());
  result.value = quality.metric;
  result.top5 = quality.top5;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  display.clear();
  return result;
}

/// The exits that --exit names; 0 is the end of the model.
std::vector<std::int64_t> wanted_exits(const Arguments& arguments, const Model& model) {
  if (!arguments.has("exit")) return {0};
  std::vector<std::int64_t> exits;
  if (arguments.text("exit") != "all") {
    exits.push_back(parse_number<std::int64_t>(arguments.text("exit"), "--exit", 1, 1'000'000));
    return exits;
  }
  for (std::size_t i = 1; i <= model.exits().size(); ++i)
    exits.push_back(static_cast<std::int64_t>(i));
  if (exits.empty())
    throw Error(Errc::kUsage, "this model has no early exits; an architecture exits:... has them");
  exits.push_back(0);
  return exits;
}

void print_answers(const Data& data, const std::vector<Evaluated>& answers) {
  const Evaluated& last = answers.back();
  Table table;
  if (answers.size() == 1) {
    table.row({metric_heading(data.metric), metric_text(data.metric, last.value)});
    if (last.top5) table.row({"among the best five", metric_text(data.metric, *last.top5)});
    table.row({"samples", with_commas(data.test.size())});
    table.row({"seconds", fixed(last.seconds, 1)});
  } else {
    table.row({"exit", metric_heading(data.metric), "seconds"});
    for (const Evaluated& each : answers)
      table.row({each.exit, metric_text(data.metric, each.value), fixed(each.seconds, 3)});
  }
  std::cout << table.text();
}

}  // namespace

int eval_with_torch(const Arguments& arguments) {
  if (!arguments.has("data"))
    throw Error(Errc::kUsage, "name what to evaluate on: --data mnist:DIR, for example");
  Settings settings = settings_below_flags(arguments);
  if (arguments.has("device")) settings.apply("train.device", arguments.text("device"), "--device");
  say_unused(arguments, settings, {"data.", "train.threads", "train.device"}, "eval");
  if (settings.threads > 0) at::set_num_threads(static_cast<int>(settings.threads));

  const fs::path file = arguments.words()[0];
  Report page(arguments, "eval", file.string());
  PluginHost host;
  load_plugins(host, arguments);
  device_named(settings.device);  // refused before anything is opened
  const bool artifact = fs::is_regular_file(file) && ArtifactReader::is_artifact(file);
  if (!artifact && arguments.has("model"))
    throw Error(Errc::kUsage, "--model needs a .gbz, and this file is not one");
  std::vector<std::string> idle;
  note_idle_parts(arguments, {arguments.has("model") ? fs::path(arguments.text("model")) : file},
                  idle);
  note_idle_force(arguments, idle);
  say_notes(arguments, idle);
  const auto model = open_weights(
      {file, arguments.text("arch"), arguments.text("model"), model_options(arguments)},
      host.registry());
  say_notes(arguments, model->notes());
  Data data = targets_of_original(open_data(arguments.text("data"), settings.data), arguments,
                                  host.registry());
  use_device(settings, {}, *model, nullptr, &data);
  std::vector<Evaluated> answers;
  for (const std::int64_t exit : wanted_exits(arguments, *model))
    answers.push_back(evaluated(*model, data, exit, arguments.quiet()));
  const Evaluated& last = answers.back();

  ordered_json result = {{"file", file.string()},
                         {"arch", model->arch()},
                         {"data", data.spec},
                         {"metric", {{"name", metric_name(data.metric)}, {"value", last.value}}},
                         {"samples", data.test.size()},
                         {"seconds", last.seconds}};
  if (last.top5) result["metric"]["top5"] = *last.top5;
  if (arguments.has("exit"))
    for (const Evaluated& each : answers)
      result["exits"].push_back(
          {{"exit", each.exit}, {"value", each.value}, {"seconds", each.seconds}});
  if (page.wanted()) {
    page.set("settings", ordered_json::parse(settings.to_json()));
    tell_versions(page, host);
    show_file(page, file, artifact, model_options(arguments));
    page.write(result);
  }
  if (arguments.json()) {
    print_json(result);
    return kDone;
  }
  print_answers(data, answers);
  return kDone;
}

}  // namespace gbcompress::cli
