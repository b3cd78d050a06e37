#include "weights_alone.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "compress_options.h"
#include "event_file.h"
#include "exit_status.h"
#include "family.h"
#include "freed_memory.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/options.h"
#include "gbcompress/report.h"
#include "gbcompress/tensors.h"
#include "gbcompress/weights.h"
#include "model_folders.h"
#include "model_options.h"
#include "present.h"
#include "report.h"
#include "run_options.h"
#include "table.h"
#include "weights_estimate.h"

namespace gbcompress::cli {
namespace {

InputSize size_of(const TensorBundle& bundle) {
  InputSize size{.file_bytes = bundle.file_bytes};
  double reals = 0, bits = 0;
  for (const TensorEntry& tensor : distinct_tensors(bundle.tensors)) {
    const std::int64_t elements = tensor_elements(tensor.shape);
    size.weights += elements;
    if (!is_real(tensor.dtype)) continue;
    reals += static_cast<double>(elements);
    bits += static_cast<double>(elements) * dtype_bits(tensor.dtype);
  }
  if (reals > 0) size.real_bits = bits / reals;
  return size;
}

/// Rules name whole tensors.
const std::string& name_for_rules(const TensorEntry& tensor) {
  return tensor.whole.empty() ? tensor.name : tensor.whole;
}

/// The size that is asked for, bytes. Where it follows from no option, it is one that a file can
/// have.
std::optional<std::int64_t> asked_bytes(const Settings& settings, const TensorBundle& tensors) {
  const Target& target = settings.compress.target;
  const InputSize size = size_of(tensors);
  if (size.weights == 0) return {};  // a file without numbers misses no target
  const bool by_default = !default_target_text(settings).empty();
  if (by_default && target.ratio &&
      static_cast<double>(tensors.file_bytes) < *target.ratio * kSmallestFile)
    return kSmallestFile;
  return target_bytes(target, size);
}

WeightsOptions weights_options(const Arguments& arguments, const Settings& settings,
                               const TensorBundle& tensors) {
  const CompressOptions& run = settings.compress;
  WeightsOptions options{.measure = run.train.rate.measure,
                         .quantizer = run.train.rate.quantizer,
                         .small_where_it_pays = run.effort == Effort::kMax,
                         .arch = arguments.text("arch"),
                         .settings = settings.changes_json(),
                         .overwrite = arguments.has("force"),
                         .threads = static_cast<int>(settings.threads)};
  for (const TensorEntry& tensor : tensors.tensors)
    if (mode_of(name_for_rules(tensor), run.bottleneck) == WeightMode::kExact)
      options.exact.push_back(tensor.name);
  options.targets = tensor_targets(run.bottleneck);
  // Where all is exact, a target bounds the file and changes nothing in it.
  if (options.exact.size() == tensors.tensors.size()) return options;
  options.max_error = run.target.max_error;
  options.max_bytes = asked_bytes(settings, tensors);
  return options;
}

/// Compares the size of a file of exact values with the target.
void check_exact_size(WeightsReport& report, const WeightsOptions& options,
                      const Settings& settings, const TensorBundle& tensors) {
  if (options.max_bytes || options.max_error) return;
  const auto most = asked_bytes(settings, tensors);
  if (!most || report.output_bytes <= *most) return;
  report.target_met = false;
  report.target_note = "the target is " + std::to_string(*most) + " bytes, and exact values take " +
                       std::to_string(report.output_bytes) + "; use --mode quantized";
}

/// Weights from which on a run takes long enough to be continued after a kill.
constexpr std::int64_t kPartsFrom = std::int64_t{1} << 28;

void take_cost(CompressionReport& report, std::chrono::steady_clock::time_point start) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.peak_memory_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

/// What compress_weights() or compress_layers() wrote.
struct Written {
  WeightsReport file;
  std::optional<WeightsReport> draft;  ///< its first part, if it has layers
};

/// What compress_weights() and its estimate are given.
struct Prepared {
  TensorBundle tensors;
  WeightsOptions options;
  std::vector<BaseModel> bases = {};                       ///< options.bases
  std::unique_ptr<const Statistics> statistics = nullptr;  ///< options.statistics, or null
};

/// Says what concerns the file and the call, and opens --base.
Prepared prepare(const Arguments& arguments, const Settings& settings, TensorBundle tensors,
                 const Family* family) {
  say_notes(arguments, tensors.notes);
  std::vector<std::string> names;
  for (const TensorEntry& tensor : tensors.tensors) names.push_back(name_for_rules(tensor));
  say_notes(arguments, idle_rule_warnings(settings.compress.bottleneck.layers, names));
  say_notes(arguments, compress_notes(arguments, settings));
  Prepared prepared{{}, weights_options(arguments, settings, tensors)};
  if (family) {
    prepared.bases = family->models_of(arguments.list("base"));
    prepared.options.keep_digest = true;
  } else {
    for (const std::string& base : arguments.list("base"))
      prepared.bases.push_back(BaseModel::open(base));
  }
  prepared.options.bases = prepared.bases;
  if (arguments.has("statistics")) {
    prepared.statistics =
        std::make_unique<Statistics>(read_statistics(open_tensors(arguments.text("statistics"))));
    prepared.options.statistics = prepared.statistics.get();
  }
  prepared.tensors =
      prepared.options.arch.empty() ? std::move(tensors) : arranged(tensors, prepared.options);
  return prepared;
}

/// Whether the plan and the way of the run take nothing but a file of tensors.
bool weights_suffice(const Arguments& arguments, const Settings& settings) {
  for (const char* option : {"data", "from-scratch", "resume", "checkpoint", "plugin"})
    if (arguments.has(option)) return false;
  return !arguments.words().empty() && !request_plan(arguments, settings).needs_model &&
         read_launch().world == 1;
}

/// ONNX and GGUF models have no forward pass here.
void refuse_graphs(const Arguments& arguments) {
  if (arguments.words().empty()) return;
  const std::string& model = arguments.words()[0];
  if (is_onnx(model) || is_gguf(model))
    throw Error(Errc::kUsage,
                printable(model) + (is_gguf(model) ? " is a GGUF" : " is an ONNX") +
                    " model, which is compressed without data, training "
                    "and plugins; leave out their options, and give a size or an error");
}

/// @throws Error(kUsage) where integers would have to come back as they are
void check_requantize(const Arguments& arguments, const Settings& settings) {
  if (settings.compress.bottleneck.mode == WeightMode::kExact)
    throw Error(Errc::kUsage,
                "--requantize contradicts --mode exact, which keeps the integers themselves; give "
                "one of both");
  if (arguments.has("base"))
    throw Error(Errc::kUsage,
                "--requantize contradicts --base, which compares the integers; give one of both");
}

/// Says what was not reached. @return the exit status
int say_outcome(const CompressionReport& report, const std::string& default_target) {
  if (report.output_bytes >= report.input_bytes)
    say("the file has " + with_commas(report.output_bytes) + " bytes and the model " +
        with_commas(report.input_bytes) + ": this model does not shrink; keep the model itself");
  if (report.target_met) return kDone;
  if (default_target.empty()) {
    say("the target was not reached: " + report.target_note);
    return kTargetMissed;
  }
  say("no target was given, and " + default_target + " was not reached: " + report.target_note +
      "; give --max-error, or a size");
  return kDone;
}

Written write_file(const Arguments& arguments, const Prepared& work, const std::string& output) {
  if (!arguments.has("layers")) return {compress_weights(work.tensors, output, work.options), {}};
  LayersReport layers = compress_layers(work.tensors, output, work.options);
  for (std::string& note : layers.exact.notes)
    if (std::ranges::find(layers.draft.notes, note) == layers.draft.notes.end())
      layers.draft.notes.push_back(note);
  layers.exact.notes = layers.draft.notes;
  layers.exact.target_met = layers.draft.target_met;
  layers.exact.target_note = layers.draft.target_note;
  return {std::move(layers.exact), std::move(layers.draft)};
}

}  // namespace

std::optional<TensorBundle> tensors_of_request(const Arguments& arguments,
                                               const Settings& settings) {
  const bool suffice = weights_suffice(arguments, settings);
  if (!suffice || arguments.has("arch")) refuse_graphs(arguments);
  if (!suffice) return {};
  const std::filesystem::path model = arguments.words()[0];
  if (arguments.has("requantize")) check_requantize(arguments, settings);
  const FileKind kind = sniff(model);
  // What only models know (and messages about them) is the other path's: TorchScript, architectures
  // of plugins, tensors that do not fit.
  if (kind == FileKind::kTorchScript || kind == FileKind::kArtifact) return {};
  OpenOptions options = model_options(arguments);
  options.whole_folder = takes_whole_folder(arguments, model);
  TensorBundle tensors = open_tensors(model, options);
  const std::string arch = arguments.text("arch");
  if (!arch.empty() && !fits_layout(tensors, arch)) return {};
  return tensors;
}

int compress_weights_alone(const Arguments& arguments, const Settings& settings,
                           TensorBundle tensors, Family* family) {
  const auto start = std::chrono::steady_clock::now();
  keep_freed_memory();
  if (arguments.has("dry-run")) {
    const Prepared work = prepare(arguments, settings, std::move(tensors), family);
    return print_estimate(arguments, settings, work.tensors, work.options);
  }
  ModelOutput output(arguments, arguments.words()[0], ".gbz");
  const std::filesystem::path source = arguments.words()[0];
  const bool whole = !output.in_folder() && takes_whole_folder(arguments, source);
  if (!whole || !keep_carried(source, tensors)) output.say_what_stays();
  writing([&] { output.check(); });
  Report page(arguments, "compress", arguments.words()[0]);
  const auto log = event_log(arguments);
  const std::int64_t input_bytes = tensors.file_bytes;
  Prepared work = prepare(arguments, settings, std::move(tensors), family);
  Written written = writing([&] {
    output.begin();
    if (!output.is_stream()) work.options.parts_from = kPartsFrom;
    Written made = write_file(arguments, work, output.file());
    output.finish();
    return made;
  });
  if (family) family->add(arguments.words()[0], work.tensors, written.file.digest, work.bases);
  check_exact_size(written.file, work.options, settings, work.tensors);
  CompressionReport report = report_of(std::move(written.file), std::move(written.draft),
                                       input_bytes, request_plan(arguments, settings));
  take_cost(report, start);
  say_notes(arguments, report.notes);
  if (log) log_result(*log, "result", report.output_bytes, report.tensors);
  const Request request{.output = output.name(),
                        .shown = output.shown(),
                        .default_target = default_target_text(settings),
                        .settings = settings.to_json()};
  if (arguments.json())
    print_json(to_json(report, request));
  else
    print_report(report, request, arguments.verbose());
  if (page.wanted()) {
    page.show(ArtifactReader::open(output.file()), TensorSource::of(std::move(work.tensors)));
    page.write(to_json(report, request));
  }
  return say_outcome(report, request.default_target);
}

}  // namespace gbcompress::cli
