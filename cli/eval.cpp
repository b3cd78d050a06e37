#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/artifact.h"
#include "gbcompress/config.h"
#include "gbcompress/error.h"
#include "load_plugins.h"
#include "model/module_model.h"
#include "model_options.h"
#include "progress.h"
#include "table.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

/// A model with the weights that the artifact expands to.
std::unique_ptr<Model> expanded(const fs::path& file, const Arguments& arguments,
                                const Registry& registry) {
  const ArtifactReader artifact = ArtifactReader::open(file);
  artifact.verify();
  const bool given = arguments.has("arch");
  const std::string arch = given ? arguments.text("arch") : artifact.arch();
  const bool built = !arch.empty() && arch != "torchscript";
  if (!built && !arguments.has("model"))
    throw Error(Errc::kUsage,
                arch == "torchscript"
                    ? "this file came from TorchScript, whose code it does not hold; give the "
                      "original with --model FILE"
                    : "this file names no architecture; give one with --arch NAME, or the original "
                      "TorchScript model with --model FILE");
  const std::vector<NamedParameter> tensors = expand(artifact, registry);
  std::unique_ptr<Model> model;
  if (arguments.has("model")) {
    model = open_model(arguments.text("model"), arguments.text("arch"), registry,
                       model_options(arguments));
  } else {
    std::vector<ParameterInfo> weights;
    for (const NamedParameter& each : tensors) weights.push_back(each.info);
    model = build_for(arch, weights, registry);
  }
  load_tensors(*model, tensors);
  return model;
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
  PluginHost host;
  load_plugins(host, arguments);
  const bool artifact = fs::is_regular_file(file) && ArtifactReader::is_artifact(file);
  if (!artifact && arguments.has("model"))
    throw Error(Errc::kUsage, "--model is for a .gbz, and this file is none");
  const auto model = artifact ? expanded(file, arguments, host.registry())
                              : open_model(file, arguments.text("arch"), host.registry(),
                                           model_options(arguments));
  say_notes(arguments, model->notes());
  const Data data = open_data(arguments.text("data"), settings.data);
  ProgressDisplay display(arguments.quiet());
  const auto start = std::chrono::steady_clock::now();
  const double value = evaluate(*model, data.test, data.metric, display.sink());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  display.clear();

  if (arguments.json()) {
    print_json({{"file", file.string()},
                {"arch", model->arch()},
                {"data", data.spec},
                {"metric", {{"name", metric_name(data.metric)}, {"value", value}}},
                {"samples", data.test.size()},
                {"seconds", seconds}});
    return kDone;
  }
  const bool accuracy = data.metric == Metric::kAccuracy;
  Table table;
  table.row({accuracy ? "test accuracy" : "test loss a character",
             accuracy ? fixed(value, 2) + " %" : fixed(value, 4) + " nats"});
  table.row({"samples", with_commas(data.test.size())});
  table.row({"seconds", fixed(seconds, 1)});
  std::cout << table.text();
  return kDone;
}

}  // namespace gbcompress::cli
