#include "gbcompress/compress.h"

#include <ATen/Parallel.h>

#include <iostream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/file.h"
#include "base/text.h"
#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/rank_log.h"
#include "model_options.h"
#include "progress.h"
#include "ranks.h"
#include "run_options.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

using nlohmann::ordered_json;

const char* const kTargets[] = {"ratio", "max-bytes", "max-drop", "max-error"};
constexpr const char* kDefaultRatio = "10";

void options(po::options_description& into) {
  auto add = into.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  add("output,o", text("FILE"), "the .gbz to write");
  add("mode", text("NAME"), "generated, residual or raw: what the file holds of a parameter");
  add_run_options(into);
  add("ratio", text("R"), "make the file R times smaller than MODEL (10 where no target is given)");
  add("max-bytes", text("N"), "make the file N bytes at most: 50000, 50k, 1MB");
  add("max-drop", text("P"), "lose P at most, in percent of accuracy or nats a character");
  add("max-error", text("E"),
      "with --mode residual and no training: squared error of all weights "
      "over their squares at most, such as 0.001");
  add("force", "replace the output file");
  add("resume", text("DIR"), "go on from a checkpoint, or from the newest in a folder");
  add("checkpoint", text("DIR"),
      "where checkpoints are written, to stay; else beside the output, and removed at the end");
  add("placement", text("NAME"), "with several processes: auto, owner or replicated");
  add("deterministic", "the same file for 1, 2, 4 or 8 processes");
  add_rank_options(into);
}

/// Defaults < file < environment < --set < flags.
Settings resolve(const Arguments& arguments) {
  Settings settings = settings_below_flags(arguments);
  std::string given;
  for (const std::string target : kTargets) {
    if (!arguments.has(target)) continue;
    if (!given.empty())
      throw Error(Errc::kUsage, "--" + target + " contradicts --" + given + "; give one target");
    given = target;
  }
  if (arguments.has("max-bytes"))
    settings.apply("target.max_bytes",
                   std::to_string(parse_bytes(arguments.text("max-bytes"), "--max-bytes")),
                   "--max-bytes");
  apply_flags(arguments,
              {{"ratio", "target.ratio"},
               {"max-drop", "target.max_drop"},
               {"max-error", "target.max_error"},
               {"placement", "ranks.placement"},
               {"mode", "weights.mode"}},
              settings);
  if (arguments.has("deterministic") && settings.compress.train.shards == 0)
    settings.apply("train.shards", "8", "--deterministic");
  const Target& target = settings.compress.target;
  // Trained with the rate in the loss, lambda decides.
  const bool priced = settings.compress.bottleneck.mode == WeightMode::kResidual &&
                      arguments.has("data") && settings.compress.train.loss != Loss::kWeights &&
                      settings.compress.train.epochs > 0;
  if (!priced && !target.ratio && !target.max_bytes && !target.max_drop && !target.max_error)
    settings.apply("target.ratio", kDefaultRatio, "default");
  return settings;
}

std::string metric_text(Metric metric, double value) {
  return metric == Metric::kAccuracy ? fixed(value, 2) + " %" : fixed(value, 4) + " nats";
}

void print_report(const CompressReport& report, const std::string& output, bool verbose,
                  const Group& group) {
  Table table;
  table.row({"", "original", "compressed"});
  table.row({"bytes on disk", with_commas(report.input_bytes), with_commas(report.output_bytes)});
  table.row({"ratio", "1.00", fixed(report.ratio, 2)});
  table.row({"parameters", with_commas(report.parameters),
             with_commas(report.gnet_parameters + report.plain_parameters)});
  if (report.metric) {
    const char* name =
        *report.metric == Metric::kAccuracy ? "test accuracy" : "test loss a character";
    table.row({name, metric_text(*report.metric, report.before),
               metric_text(*report.metric, report.after)});
  } else {
    // Squared error over variance: all there is to tell without data. After training on a task it
    // says nothing, because other weights do the same job.
    table.row({"test quality", "-", "not evaluated"});
    table.row({"weight error", "0", fixed(report.weight_error, 4)});
  }
  if (!report.allocation.empty()) table.row({"steps follow", "", report.allocation});
  if (report.corrected_norms > 0)
    table.row({"batch norms corrected", "", std::to_string(report.corrected_norms)});
  table.row({"seconds", "", fixed(report.seconds, 1)});
  table.row({"peak memory", "", rough_bytes(report.peak_memory_bytes)});
  if (group.world() > 1) {
    table.row({"processes", "", std::to_string(group.world())});
    table.row(
        {"sent by each a step", "", rough_bytes(static_cast<std::int64_t>(report.bytes_per_step))});
  }
  std::cout << table.text();
  if (verbose) std::cout << "\n" << report.description << "sha256 " << report.identity << "\n";
  std::cout << "\nwritten to " << printable(output) << "\n";
}

ordered_json to_json(const CompressReport& report, const std::string& output,
                     const std::string& settings, const Group& group) {
  ordered_json metric;
  if (report.metric)
    metric = {{"name", metric_name(*report.metric)},
              {"before", report.before},
              {"after", report.after},
              {"drop", metric_drop(*report.metric, report.before, report.after)}};
  return {{"output", output},
          {"input_bytes", report.input_bytes},
          {"output_bytes", report.output_bytes},
          {"ratio", report.ratio},
          {"metric", metric},
          {"parameters", report.parameters},
          {"gnet_parameters", report.gnet_parameters},
          {"plain_parameters", report.plain_parameters},
          {"generated_tensors", report.generated_tensors},
          {"weight_error", report.weight_error},
          {"allocation", report.allocation},
          {"corrected_norms", report.corrected_norms},
          {"seconds", report.seconds},
          {"peak_memory_bytes", report.peak_memory_bytes},
          {"target_met", report.target_met},
          {"target_note", report.target_note},
          {"identity", report.identity},
          {"world", group.world()},
          {"bytes_per_step", report.bytes_per_step},
          {"settings", ordered_json::parse(settings)}};
}

/// What each rank does with the others. @return the exit status
int compress_on(Group& group, const Arguments& arguments, const PluginHost& host,
                Settings& settings) {
  CompressOptions& options = settings.compress;
  const std::string output = options.output.string();
  // Integers that nobody trains take less time than threads that wait for each other: 2 s of
  // processor time for 22.7 M weights on one, 8 s on two of a busy machine.
  const bool quick = options.bottleneck.mode == WeightMode::kResidual &&
                     options.train.loss == Loss::kWeights && settings.threads == 0;
  if (quick) at::set_num_threads(1);
  const Input input = open_input(arguments, host, options.train.seed);
  Model* const model = input.model.get();
  if (speaks_for_all()) say_notes(arguments, model->notes());
  if (!quick) set_threads(settings.threads, *model);
  std::unique_ptr<Model> teacher;
  if (options.train.loss == Loss::kDistill)
    teacher = open_input(arguments, host, options.train.seed).model;
  std::optional<Data> data;
  if (arguments.has("data")) data = open_data(arguments.text("data"), settings.data);

  ProgressDisplay display(arguments.quiet() || !speaks_for_all());
  options.group = &group;
  options.facts = setting_facts(settings.to_json());
  options.tell = [&](const std::string& text) {
    display.clear();
    if (!arguments.quiet() && speaks_for_all()) say(text);
  };
  // Everything is open by now: what the system refuses from here on is the output.
  const CompressReport report = writing([&] {
    return compress(*model, input.bytes, data ? &*data : nullptr, teacher.get(), host.registry(),
                    options, display.sink());
  });
  display.clear();
  if (!speaks_for_all()) return kDone;
  if (arguments.json())
    print_json(to_json(report, output, settings.to_json(), group));
  else
    print_report(report, output, arguments.verbose(), group);
  if (report.target_met) return kDone;
  say("the target was not met: " + report.target_note);
  return kTargetMissed;
}

/// Large tensors come and go: what was freed is used again instead of coming zeroed from the
/// kernel.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int run(const Arguments& arguments) {
  keep_freed_memory();
  need_model(arguments, "compress");
  const std::string output = arguments.text("output");
  if (output.empty()) throw Error(Errc::kUsage, "name the file to write: -o OUT.gbz");
  Settings settings = resolve(arguments);
  CompressOptions& options = settings.compress;
  options.output = output;
  options.overwrite = arguments.has("force");
  options.settings = settings.changes_json();
  CheckpointSettings& checkpoints = options.checkpoints;
  checkpoints.folder = output + ".checkpoints";
  if (arguments.has("resume")) {
    checkpoints.resume = checkpoints.folder = arguments.text("resume");
    // One checkpoint was named, not the folder it is in.
    if (std::filesystem::exists(checkpoints.folder / "manifest"))
      checkpoints.folder = checkpoints.folder.parent_path();
  }
  if (arguments.has("checkpoint")) checkpoints.folder = arguments.text("checkpoint");
  options.remove_checkpoints = !arguments.has("checkpoint");

  PluginHost host;
  load_plugins(host, arguments);
  const auto group = open_group(arguments, host);
  if (group->rank() == 0) writing([&] { check_writable(options.output, options.overwrite); });
  int status = kDone;
  run_together(*group, [&] { status = compress_on(*group, arguments, host, settings); });
  return status;
}

}  // namespace

const Verb& compress_verb() {
  static const Verb verb = {
      "compress",
      "Compress a model file into a .gbz.",
      "MODEL -o OUT.gbz [options]",
      "  gbcompress compress model.safetensors --arch lenet-300-100 --data mnist:DIR --ratio 20 -o "
      "model.gbz\n"
      "  gbcompress compress model.torchscript.pt --data cifar10:DIR --max-drop 2 -o model.gbz\n"
      "  gbcompress compress --from-scratch --arch mlp:784-300-100-10 --data mnist:DIR --mode "
      "residual --max-bytes 3k -o model.gbz\n"
      "  gbcompress compress weights.safetensors --max-bytes 500k -o weights.gbz\n",
      0,
      1,
      options,
      run};
  return verb;
}

}  // namespace gbcompress::cli
