#include "gbcompress/compress.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>

#include "command.h"
#include "compress_options.h"
#include "dry_run.h"
#include "exit_status.h"
#include "freed_memory.h"
#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/tensors.h"
#include "input.h"
#include "load_plugins.h"
#include "metric_text.h"
#include "model_folders.h"
#include "model_options.h"
#include "ranks.h"
#include "result_json.h"
#include "resumption.h"
#include "run_options.h"
#include "run_watch.h"
#include "source_of.h"
#include "stored_table.h"
#include "table.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

/// @param output  what is written, to be printed
/// @param target  default_target_text()
void print_report(const CompressReport& report, const std::string& output,
                  const std::string& target, bool verbose, const Group& group) {
  Table table;
  table.row({"", "original", "compressed"});
  table.row({"bytes on disk", with_commas(report.input_bytes), with_commas(report.output_bytes)});
  table.row({"ratio", "1.00", fixed(report.ratio, 2)});
  table.row({"parameters", with_commas(report.parameters),
             with_commas(report.gnet_parameters + report.plain_parameters)});
  if (report.metric) {
    table.row({metric_heading(*report.metric), metric_text(*report.metric, report.before),
               metric_text(*report.metric, report.after)});
    if (report.last_exit)
      table.row({"at the last exit", "", metric_text(*report.metric, *report.last_exit)});
  } else {
    // Squared error over variance: all there is to tell without data. After training on a task it
    // says nothing, because other weights do the same job.
    table.row({"test quality", "", "not evaluated (no data)"});
    table.row({"weight error", "0", fixed(report.weight_error, 4)});
  }
  // After training on a task other weights do the same job: errors of theirs say little.
  if (report.attempts == 0 || !report.metric) add_stored_rows(table, report.tensors);
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
  if (group.world() > 1) {
    table.row({"processes", "", std::to_string(group.world())});
    table.row({"sent by each per step", "",
               rough_bytes(static_cast<std::int64_t>(report.bytes_per_step))});
  }
  std::cout << table.text();
  if (verbose && !report.tensors.empty()) std::cout << "\n" << stored_listing(report.tensors);
  if (verbose) std::cout << "\n" << report.description << "sha256 " << report.identity << "\n";
  if (!report.method_reason.empty())
    std::cout << "\n" << report.method << ": " << report.method_reason << "\n";
  if (!report.attempt_taken.empty()) std::cout << "\n" << report.attempt_taken << "\n";
  std::cout << "\nwritten to " << output << "\n";
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

DryRun dry_run_of(const CompressionPlan& plan) {
  return {plan, training_json(plan.train, plan.learning_rate, plan.step_speed)};
}

void print_plan(const CompressionPlan& plan) {
  Table table;
  table.row({"", "plan"});
  add_method_rows(table, plan);
  if (plan.attempts > 0) {
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
  add_cost_rows(table, *plan.cost);
  std::cout << table.text() << "\nnothing was trained or written\n";
}

CompressResult result_of(const CompressReport& report, const std::string& output,
                         const std::string& settings, const Group& group) {
  CompressResult result;
  result.output = output;
  result.input_bytes = report.input_bytes;
  result.output_bytes = report.output_bytes;
  if (report.metric)
    result.metric = {{"name", metric_name(*report.metric)},
                     {"before", report.before},
                     {"after", report.after},
                     {"drop", metric_drop(*report.metric, report.before, report.after)}};
  if (report.last_exit) result.metric["last_exit"] = *report.last_exit;
  result.parameters = report.parameters;
  result.gnet_parameters = report.gnet_parameters;
  result.plain_parameters = report.plain_parameters;
  result.generated_tensors = report.generated_tensors;
  result.weight_error = report.weight_error;
  result.plan = report.plan;
  result.method = report.method;
  result.method_reason = report.method_reason;
  result.allocation = report.allocation;
  result.corrected_norms = report.corrected_norms;
  result.attempts = report.attempts;
  result.attempt_taken = report.attempt_taken;
  result.lambda = report.lambda;
  result.training = training_json(report.train, report.learning_rate, report.step_speed);
  result.seconds = report.seconds;
  result.peak_memory_bytes = report.peak_memory_bytes;
  result.target_met = report.target_met;
  result.target_note = report.target_note;
  result.notes = report.notes;
  result.identity = report.identity;
  result.tensors = report.tensors;
  result.world = group.world();
  result.bytes_per_step = report.bytes_per_step;
  result.settings = settings;
  return result;
}

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
  use_device(settings, launch_of(arguments), model, opened.teacher.get(),
             opened.data ? &*opened.data : nullptr);
  return opened;
}

/// Prints and logs what the file is, and writes the page. @return the exit status
int show_result(const CompressReport& report, const Arguments& arguments, const PluginHost& host,
                const Settings& settings, const ModelOutput& target, std::optional<Report>& page,
                const RunWatch& watch, EventLog* log) {
  const Group& group = *settings.compress.group;
  if (log)
    log_result(*log, "result", report.output_bytes, report.tensors,
               report.metric ? std::string(metric_name(*report.metric)) : "", report.after);
  ordered_json result;
  const bool shown = page && page->wanted();
  if (arguments.json() || shown) {
    CompressResult told = result_of(report, target.name(), settings.to_json(), group);
    told.target_default = default_target_text(settings);
    result = to_json(told);
  }
  if (shown) {
    watch.tell(*page);
    tell_versions(*page, host);
    show_files(*page, arguments, target.file());
    page->write(result);
  }
  if (arguments.json()) {
    // What the layers of a local strategy learn by is not in the loss of the run.
    if (settings.compress.train.strategy.name != StrategyChoice().name)
      result["curves"] = watch.curves();
    print_json(result);
  } else
    print_report(report, target.shown(), default_target_text(settings), arguments.verbose(), group);
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
      arguments.json() ? print_json(to_json(dry_run_of(plan))) : print_plan(plan);
    return kDone;
  }
  // Everything is open by now: what the system refuses from here on is the output.
  const CompressReport report = writing([&] {
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
  if (arguments.has("data")) device_of_rank(settings, launch_of(arguments));
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
