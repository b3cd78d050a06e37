#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"
#include "load_plugins.h"
#include "metric_text.h"
#include "model_options.h"
#include "open_weights.h"
#include "progress.h"
#include "report.h"
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
    throw Error(
        Errc::kUsage,
        "these data hold no targets, so that outputs can only be compared with those of the "
        "original; give it with --model FILE, or use `gbcompress compare`");
  const auto original = open_model(arguments.text("model"), arguments.text("arch"), registry,
                                   model_options(arguments));
  return answered(*original, std::move(data));
}

}  // namespace

int eval_with_torch(const Arguments& arguments) {
  if (!arguments.has("data"))
    throw Error(Errc::kUsage, "name what to evaluate on: --data mnist:DIR, for example");
  Settings settings;
  if (arguments.has("config")) settings.apply_file(arguments.text("config"));
  settings.apply_environment();
  for (const std::string& assignment : arguments.list("set")) settings.apply_assignment(assignment);
  if (settings.threads > 0) at::set_num_threads(static_cast<int>(settings.threads));

  const fs::path file = arguments.words()[0];
  Report page(arguments, "eval", file.string());
  PluginHost host;
  load_plugins(host, arguments);
  const bool artifact = fs::is_regular_file(file) && ArtifactReader::is_artifact(file);
  if (!artifact && arguments.has("model"))
    throw Error(Errc::kUsage, "--model is for a .gbz, and this file is none");
  const auto model = open_weights(
      {file, arguments.text("arch"), arguments.text("model"), model_options(arguments)},
      host.registry());
  say_notes(arguments, model->notes());
  const Data data = targets_of_original(open_data(arguments.text("data"), settings.data), arguments,
                                        host.registry());
  ProgressDisplay display(arguments.quiet());
  const auto start = std::chrono::steady_clock::now();
  const double value = evaluate(*model, data.test, data.metric, display.sink());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  display.clear();

  ordered_json result = {{"file", file.string()},
                         {"arch", model->arch()},
                         {"data", data.spec},
                         {"metric", {{"name", metric_name(data.metric)}, {"value", value}}},
                         {"samples", data.test.size()},
                         {"seconds", seconds}};
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
  Table table;
  table.row({metric_heading(data.metric), metric_text(data.metric, value)});
  table.row({"samples", with_commas(data.test.size())});
  table.row({"seconds", fixed(seconds, 1)});
  std::cout << table.text();
  return kDone;
}

}  // namespace gbcompress::cli
