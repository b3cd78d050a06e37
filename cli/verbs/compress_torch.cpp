#include "gbcompress/compress.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "command.h"
#include "compress_options.h"
#include "exit_status.h"
#include "freed_memory.h"
#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/tensors.h"
#include "input.h"
#include "load_plugins.h"
#include "model_folders.h"
#include "model_options.h"
#include "present.h"
#include "ranks.h"
#include "resumption.h"
#include "run_options.h"
#include "run_watch.h"
#include "source_of.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

/// Histograms of the file, beside the model's own values where they can be read.
void show_files(Report& page, const Arguments& arguments, const std::string& output) {
  const ArtifactReader artifact = ArtifactReader::open(output);
  const bool from_file = !arguments.words().empty();
  if (from_file && sniff(arguments.words()[0]) != FileKind::kTorchScript)
    page.show(artifact, TensorSource::of(
                            source_of(artifact, arguments.words()[0], model_options(arguments))));
  else
    page.show(artifact);
}

/// A line for each plugin that was given and of which this call uses nothing.
std::vector<std::string> idle_plugins(const Arguments& arguments, const PluginHost& host,
                                      const CompressOptions& options) {
  std::vector<std::string> notes;
  const std::size_t given = arguments.list("plugin").size();  // loaded first
  const std::string arch = arguments.text("arch");
  const std::string model = arch.substr(0, arch.find(':'));
  for (std::size_t i = 0; i < std::min(given, host.loaded().size()); ++i) {
    const LoadedPlugin& plugin = host.loaded()[i];
    const auto holds = [](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if ((has_gnets(options.bottleneck) && !plugin.gnet_types.empty()) ||
        holds(plugin.models, model) || holds(plugin.strategies, options.train.strategy.name))
      continue;
    notes.push_back("warning: plugin " + printable(plugin.fingerprint.name) +
                    " has no effect: this mode has no g-nets, and no architecture or strategy of "
                    "it is used");
  }
  return notes;
}

/// Everything that is opened before the run.
struct Opened {
  Input input;
  std::unique_ptr<Model> teacher;
  std::optional<Data> data;

  const Data* data_or_null() const { return data ? &*data : nullptr; }
};

Data synthetic_inputs(const Arguments& arguments, const CompressOptions& options, Model& model) {
  RunWatch watch(arguments.quiet() || !speaks_for_all(), nullptr);
  Data data = synthetic_data(model, arguments.text("data"), options.train.seed, watch.sink());
  watch.display().clear();
  if (speaks_for_all())
    say_notes(arguments,
              {"note: the output error is that of synthetic inputs, which resemble no data"});
  return data;
}

Opened open_all(const Arguments& arguments, const PluginHost& host, const Settings& settings) {
  const CompressOptions& options = settings.compress;
  // Untrained integers take less time than threads that wait for each other: 2 s of
  // processor time for 22.7 M weights on one, 8 s on two of a busy machine.
  const bool quick = options.bottleneck.mode == WeightMode::kQuantized &&
                     options.train.loss == Loss::kWeights && settings.threads == 0;
  if (quick) at::set_num_threads(1);
  Opened opened{open_input(arguments, host, options.train.seed), nullptr, {}};
  Model& model = *opened.input.model;
  if (speaks_for_all()) say_notes(arguments, model.notes());
  if (!quick) set_threads(settings.threads, model);
  if (teaches(options, arguments))
    opened.teacher = open_input(arguments, host, options.train.seed).model;
  if (is_synthetic(arguments))
    opened.data = answered(model, synthetic_inputs(arguments, options, model));
  else if (arguments.has("data"))
    opened.data = answered(model, open_data(arguments.text("data"), settings.data));
  use_device(settings, read_launch(), model, opened.teacher.get(),
             opened.data ? &*opened.data : nullptr);
  return opened;
}

/// Prints and logs what the file is, and writes the page. @return the exit status
int show_result(const CompressionReport& report, const Arguments& arguments, const PluginHost& host,
                const Settings& settings, const ModelOutput& target, std::optional<Report>& page,
                const RunWatch& watch, EventLog* log) {
  if (log) {
    log_result(*log, "result", report.output_bytes, report.tensors,
               report.metric ? std::string(metric_name(*report.metric)) : "", report.after);
    if (report.top5_after) log->add("result", "top5_percent", 0, *report.top5_after);
  }
  const Request request{.output = target.name(),
                        .shown = target.shown(),
                        .default_target = default_target_text(settings),
                        .settings = settings.to_json()};
  if (page && page->wanted()) {
    watch.tell(*page);
    tell_versions(*page, host);
    show_files(*page, arguments, target.file());
    page->write(to_json(report, request));
  }
  if (arguments.json()) {
    ordered_json result = to_json(report, request);
    // What the layers of a local strategy learn by is not in the loss of the run.
    if (settings.compress.train.strategy.name != StrategyChoice().name)
      result["curves"] = watch.curves();
    print_json(result);
  } else {
    print_report(report, request, arguments.verbose());
  }
  if (report.target_met) return kDone;
  say("the target was not reached: " + report.target_note);
  return kTargetMissed;
}

/// What each rank does with the others. @return the exit status
int compress_on(Group& group, const Arguments& arguments, const PluginHost& host,
                Settings& settings, ModelOutput& target, std::optional<Report>& page,
                EventLog* log) {
  CompressOptions& options = settings.compress;
  options.group = &group;
  const Opened opened = open_all(arguments, host, settings);
  Model& model = *opened.input.model;
  RunWatch watch(arguments.quiet() || !speaks_for_all(), log);
  ProgressDisplay& display = watch.display();
  options.notes = compress_notes(arguments, settings);
  for (std::string& note : idle_plugins(arguments, host, options))
    options.notes.push_back(std::move(note));
  options.facts = setting_facts(settings.to_json());
  options.tell = [&](const std::string& text) {
    display.clear();
    if (!arguments.quiet() && speaks_for_all()) say(text);
  };
  if (arguments.has("dry-run")) {
    const CompressionPlan plan = plan_compression(model, opened.input.bytes, opened.data_or_null(),
                                                  opened.teacher.get(), host.registry(), options);
    if (speaks_for_all())
      arguments.json() ? print_json(to_json(plan))
                       : print_plan(plan, default_target_text(settings));
    return kDone;
  }
  // Everything is open by now: what the system refuses from here on is the output.
  const CompressionReport report = writing([&] {
    return compress(model, opened.input.bytes, opened.data_or_null(), opened.teacher.get(),
                    host.registry(), options, watch.sink());
  });
  display.clear();
  if (!speaks_for_all()) return kDone;
  // Where the file goes to standard output it is sent before anything is printed about it.
  writing([&] { target.finish(); });
  return show_result(report, arguments, host, settings, target, page, watch, log);
}

}  // namespace

int compress_with_torch(const Arguments& arguments) {
  keep_freed_memory();
  need_model(arguments, "compress");
  const bool from_file = !arguments.words().empty();
  ModelOutput target(arguments, from_file ? arguments.words()[0] : "", ".gbz");
  const std::string& output = target.file();
  const bool dry_run = arguments.has("dry-run");
  Settings settings = compress_settings(arguments);
  CompressOptions& options = settings.compress;
  options.output = output;
  options.overwrite = arguments.has("force");
  options.settings = settings.changes_json();
  options.from_scratch = arguments.has("from-scratch");
  CheckpointSettings& checkpoints = options.checkpoints;
  // What goes to standard output has no place to leave them.
  if (!dry_run && !target.is_stream()) checkpoints.folder = output + ".checkpoints";
  if (arguments.has("resume") && !dry_run) {
    checkpoints.resume = checkpoints.folder = arguments.text("resume");
    // One checkpoint was named, not the folder it is in.
    if (std::filesystem::exists(checkpoints.folder / "manifest"))
      checkpoints.folder = checkpoints.folder.parent_path();
  }
  if (arguments.has("checkpoint") && !dry_run) checkpoints.folder = arguments.text("checkpoint");
  options.remove_checkpoints = !arguments.has("checkpoint");

  PluginHost host;
  load_plugins(host, arguments);
  // What cannot be used is refused before anything is opened.
  if (arguments.has("data")) device_of_rank(settings, read_launch());
  const auto group = open_group(arguments, host, settings);
  const bool writes = group->rank() == 0 && !dry_run;
  if (writes) {
    target.say_what_stays();
    writing([&] {
      target.check();
      target.begin();
    });
  }
  const auto log = writes ? event_log(arguments) : nullptr;
  std::optional<Report> page;
  if (writes)
    page.emplace(arguments, "compress", from_file ? arguments.words()[0] : arguments.text("arch"));
  int status = kDone;
  run_together(*group, [&] {
    try {
      status = compress_on(*group, arguments, host, settings, target, page, log.get());
    } catch (const Error& error) {
      if (const auto text = resumption(error, arguments, checkpoints.folder))
        throw Error(error.code(), *text);
      throw;
    }
  });
  return status;
}

}  // namespace gbcompress::cli
