#include "gbcompress/compress.h"

#include <algorithm>
#include <charconv>
#include <iostream>

#include "call_files.h"
#include "command.h"
#include "event_file.h"
#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "idle_options.h"
#include "input.h"
#include "load_plugins.h"
#include "metric_text.h"
#include "model_options.h"
#include "ranks.h"
#include "report.h"
#include "run_options.h"
#include "run_watch.h"
#include "table.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace {

const std::vector<double> kLambdas = {3, 1, 0.3, 0.1, 0.03};
const std::vector<double> kRatios = {4, 8, 16, 32};

std::vector<double> numbers(const Arguments& arguments, const std::string& option) {
  std::vector<double> list;
  const std::string text = arguments.text(option);
  for (std::size_t first = 0; first < text.size() || (arguments.has(option) && first == 0);) {
    const std::size_t last = std::min(text.find(',', first), text.size());
    double value = 0;
    const char *begin = text.data() + first, *end = text.data() + last;
    const auto parsed = std::from_chars(begin, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || !(value > 0 && value < 1e12))
      throw Error(Errc::kUsage, "--" + option + " takes numbers above 0 with commas between " +
                                    "them, such as 3,1,0.3, not " + printable(text));
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    first = last + 1;
  }
  return list;
}

SweepOptions resolve(const Arguments& arguments, Settings& settings) {
  settings = settings_below_flags(arguments);
  apply_flags(arguments, {}, settings);
  SweepOptions sweep;
  sweep.folder = arguments.text("output");
  sweep.lambdas = numbers(arguments, "lambdas");
  sweep.ratios = numbers(arguments, "ratios");
  sweep.errors = numbers(arguments, "errors");
  sweep.from_scratch = arguments.has("from-scratch");
  const bool untrained =
      settings.compress.train.loss == Loss::kWeights || settings.compress.train.epochs == 0;
  if (sweep.lambdas.empty() && sweep.ratios.empty() && sweep.errors.empty())
    (untrained ? sweep.ratios : sweep.lambdas) = untrained ? kRatios : kLambdas;
  sweep.compress = settings.compress;
  sweep.compress.target = {};
  sweep.compress.from_scratch = sweep.from_scratch;
  sweep.compress.facts = setting_facts(settings.to_json());
  return sweep;
}

/// What was given without an effect. A sweep computes g-nets too, and chooses targets itself.
std::vector<std::string> sweep_notes(const Arguments& arguments, const Settings& settings) {
  std::vector<std::string> notes;
  const std::string unread = unused_settings(
      settings,
      {"gnet.", "optim.", "train.", "rate.", "strategy.", "data.", "ranks.", "artifact.", "layer."},
      "sweep, which sets targets and modes itself and writes no checkpoints");
  if (!unread.empty()) notes.push_back(unread);
  Settings with_gnets = settings;
  LayerRule generated;
  generated.match = "*";
  generated.mode = WeightMode::kGenerated;
  with_gnets.compress.bottleneck.layers.push_back(generated);
  const std::string idle = unused_settings(with_gnets, use_of(arguments));
  if (!idle.empty()) notes.push_back(idle);
  note_idle_parts(arguments, {arguments.words().begin(), arguments.words().end()}, notes);
  note_idle_force(arguments, notes);
  return notes;
}

/// Methods in the order of their first points; in each the largest file first.
std::vector<SweepPoint> sorted(std::vector<SweepPoint> points) {
  std::vector<std::string> methods;
  for (const SweepPoint& p : points)
    if (std::find(methods.begin(), methods.end(), p.method) == methods.end())
      methods.push_back(p.method);
  const auto place = [&](const SweepPoint& p) {
    return std::find(methods.begin(), methods.end(), p.method) - methods.begin();
  };
  std::stable_sort(points.begin(), points.end(), [&](const SweepPoint& a, const SweepPoint& b) {
    return std::pair(place(a), -a.bytes) < std::pair(place(b), -b.bytes);
  });
  return points;
}

void print_report(const SweepReport& report, const std::string& folder) {
  const auto quality = [&](double value) { return metric_text(*report.metric, value); };
  const std::string heading = !report.metric ? "weight error" : metric_heading(*report.metric);
  Table table(2);
  table.row({"method", "setting", "bytes", "ratio", heading, "seconds"});
  table.row({"the model", "", with_commas(report.input_bytes), "1.00",
             report.metric ? quality(report.before) : "0", ""});
  for (const SweepPoint& p : report.points)
    table.row({p.method, p.setting, with_commas(p.bytes), fixed(p.ratio, 2),
               p.metric ? quality(*p.metric) : fixed(p.weight_error, 5), fixed(p.seconds, 1)});
  std::cout << table.text();
  if (!report.metric) std::cout << "\ntest quality: not evaluated (no data)\n";
  std::cout << "\nwritten to " << printable(folder) << ": points.jsonl, sweep.csv, sweep.json, "
            << "sweep.svg and the files\n";
}

/// The folder of a point's event files.
std::string part_of(const SweepPoint& point) {
  return point.file.empty() ? point.method + ", " + point.setting
                            : std::filesystem::path(point.file).stem().string();
}

void log_point(EventLog& log, const SweepPoint& point, const std::filesystem::path& folder,
               const Data* data) {
  const std::string run = part_of(point) + "/result";
  std::vector<StoredTensor> tensors;
  if (!point.file.empty())
    tensors = TensorSource::of(ArtifactReader::open(folder / point.file)).tensors();
  log_result(log, run, point.bytes, tensors,
             data && point.metric ? std::string(metric_name(data->metric)) : "",
             point.metric.value_or(0));
  log.add(run, "weight_error", 0, point.weight_error);
}

/// What each rank does with the others. @return the exit status
int sweep_on(Group& group, const Arguments& arguments, const PluginHost& host,
             const Settings& settings, SweepOptions& sweep_options, std::optional<Report>& page) {
  const Input input = open_input(arguments, host, settings.compress.train.seed);
  if (speaks_for_all()) say_notes(arguments, input.model->notes());
  set_threads(settings.threads, *input.model);
  std::unique_ptr<Model> teacher;
  if (teaches(settings.compress, arguments))
    teacher = open_input(arguments, host, settings.compress.train.seed).model;
  std::optional<Data> data;
  if (arguments.has("data"))
    data = answered(*input.model, open_data(arguments.text("data"), settings.data));
  use_device(settings, read_launch(), *input.model, teacher.get(), data ? &*data : nullptr);

  const auto log = event_log(arguments);  // of each rank: points are computed by one of them
  RunWatch watch(arguments.quiet() || !speaks_for_all(), log.get());
  ProgressDisplay& display = watch.display();
  const auto begins = [&](const SweepPoint& point) { watch.begin(part_of(point)); };
  const auto finished = [&](const SweepPoint& point) {
    display.clear();
    if (log) log_point(*log, point, sweep_options.folder, data ? &*data : nullptr);
    if (!arguments.quiet())
      say(point.method + ", " + point.setting + ": " + with_commas(point.bytes) + " bytes");
  };
  sweep_options.compress.group = &group;
  SweepReport report = writing([&] {
    return sweep(*input.model, input.bytes, data ? &*data : nullptr, teacher.get(), host.registry(),
                 sweep_options, watch.sink(), finished, begins);
  });
  display.clear();
  if (!speaks_for_all()) return kDone;
  report.points = sorted(std::move(report.points));
  const std::string name = arguments.words().empty()
                               ? arguments.text("arch")
                               : std::filesystem::path(arguments.words()[0]).filename().string();
  writing([&] { write_sweep(report, sweep_options.folder, "Bytes against quality: " + name); });
  if (page && page->wanted()) {
    page->set("settings", nlohmann::ordered_json::parse(settings.to_json()));
    tell_versions(*page, host);
    page->write(nlohmann::ordered_json::parse(sweep_json(report)));
  }
  if (arguments.json())
    print_json(nlohmann::ordered_json::parse(sweep_json(report)));
  else
    print_report(report, sweep_options.folder.string());
  for (const SweepPoint& p : report.points)
    if (!p.target_met && p.method == kQuantizedMethod) {
      say("at least one target size was not reached: " + p.setting + " has " +
          with_commas(p.bytes) + " bytes");
      return kTargetMissed;
    }
  return kDone;
}

}  // namespace

namespace {

/// Files of the folder that a sweep replaces.
void check_files_of(const Arguments& arguments) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(arguments.text("output"), error), end;
       !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".gbz") || name.starts_with("points") || name.starts_with("sweep."))
      check_not_an_input(arguments, at->path());
  }
}

}  // namespace

int sweep_with_torch(const Arguments& arguments) {
  need_model(arguments, "sweep");
  if (!arguments.has("output") || arguments.text("output").empty())
    throw Error(Errc::kUsage, "name the folder to write to: -o FOLDER");
  check_files_of(arguments);
  Settings settings;
  SweepOptions sweep_options = resolve(arguments, settings);
  if (speaks_for_all()) say_notes(arguments, sweep_notes(arguments, settings));
  PluginHost host;
  load_plugins(host, arguments);
  // What cannot be used is refused before anything is opened.
  if (arguments.has("data")) device_of_rank(settings, read_launch());
  const auto group = open_group(arguments, host, settings);
  std::optional<Report> page;
  if (group->rank() == 0)
    page.emplace(arguments, "sweep",
                 arguments.words().empty() ? arguments.text("arch") : arguments.words()[0]);
  int status = kDone;
  run_together(*group, [&] {
    try {
      status = sweep_on(*group, arguments, host, settings, sweep_options, page);
    } catch (const Error& error) {
      if (error.code() != Errc::kInterrupted) throw;
      const Call& call = arguments.call();
      throw Error(Errc::kInterrupted, "stopped on request; this continues the sweep: " +
                                          quoted(call.program) + " " + quoted(call.arguments));
    }
  });
  return status;
}

}  // namespace gbcompress::cli
