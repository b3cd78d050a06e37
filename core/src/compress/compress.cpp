#include "gbcompress/compress.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/file.h"
#include "bottleneck/internals.h"
#include "bottleneck/planner.h"
#include "compress/compress_run.h"
#include "compress/estimate.h"
#include "compress/losses.h"
#include "compress/model_run.h"
#include "compress/run_plan.h"
#include "compress/timing.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

double weight_error(const GenomicBottleneck& bottleneck) {
  const at::NoGradGuard no_grad;
  double sum = 0, count = 0;
  for (const auto& layer : bottleneck.layers()) {
    const at::Tensor original = layer.original.to(at::kDouble);
    const double variance =
        std::max(original.numel() > 1 ? original.var().item<double>() : 1.0, 1e-20);
    sum += (layer.weights.to(at::kDouble) - original).square().sum().item<double>() / variance;
    count += static_cast<double>(original.numel());
  }
  return count > 0 ? sum / count : 0;
}

bool leads(const CompressOptions& options) { return !options.group || options.group->rank() == 0; }

void measure_original(const CompressRun& call, CompressReport& report) {
  report.input_bytes = call.input_bytes;
  for (const NamedParameter& p : call.model.tensors())
    if (p.trainable && p.tied_to.empty()) report.parameters += p.info.elements();
  if (!call.data) return;
  report.metric = call.data->metric;
  report.before = evaluate(call.model, call.data->test, call.data->metric, call.progress);
}

/// Where step sizes of untrained integers come from.
void describe_allocation(const CompressRun& call, Method method, CompressReport& report) {
  report.allocation = "the weights (data-free)";
  if (method != Method::kCalibrated) return;
  report.allocation =
      std::to_string(call.allocation->samples()) + " training samples, " + call.allocation->rule();
  report.corrected_norms = call.allocation->corrected_norms();
}

/// What the bottleneck knows and the file does not say.
void describe_bottleneck(const CompressRun& call, const GenomicBottleneck& bottleneck,
                         CompressReport& report) {
  report.gnet_parameters = gnet_parameters(bottleneck);
  report.plain_parameters = plain_parameters(bottleneck);
  report.generated_tensors = static_cast<std::int64_t>(bottleneck.layers().size());
  report.description = bottleneck.describe();
  if (!call.strategy_text.empty()) report.description += call.strategy_text + "\n";
  report.weight_error =
      call.quantized() ? BottleneckIntegers::relative_error(bottleneck) : weight_error(bottleneck);
}

void describe(const CompressRun& call, const PlanResult& result,
              const std::optional<GenomicBottleneck>& bottleneck, CompressReport& report) {
  const Candidate& made = result.made;
  report.plan = call.plan;
  report.method = call.plan.name(result.method);
  report.method_reason = result.reason;
  report.target_met = made.target_met;
  report.target_note = made.note;
  report.attempt_taken = made.taken;
  if (call.quantized() && !call.trained) describe_allocation(call, result.method, report);
  if (!bottleneck) {
    report.plain_parameters = report.parameters;
    if (made.weights) report.weight_error = made.weights->total_error;
    return;
  }
  describe_bottleneck(call, *bottleneck, report);
  report.attempts = call.trained ? made.attempts : 0;
  report.lambda = made.lambda;
  report.train = call.options.train;
  report.learning_rate = call.options.bottleneck.residual_optimizer.lr;
  report.step_speed = call.options.bottleneck.step_speed;
}

void warn_of_lost_model(const CompressRun& call, const Candidate& made) {
  if (made.collapsed() && call.options.tell)
    call.options.tell("warning: the model in this file is collapsed: " +
                      AboveChance::describe(made.kept));
}

/// @return the file, opened before it got its name: another process may replace it at any time
ArtifactReader write(const CompressRun& call, const std::vector<std::byte>& bytes) {
  AtomicFile file(call.options.output, call.options.overwrite);
  file.write(bytes);
  ArtifactReader artifact = ArtifactReader::open(file.flush());
  file.commit();
  return artifact;
}

/// From here on everything is about the file: opening checked its digest, expanding decodes it all.
void measure_file(CompressRun& call, const ArtifactReader& artifact, CompressReport& report) {
  load_tensors(call.model, expand(artifact, call.registry));
  report.output_bytes = artifact.file_bytes();
  report.ratio = static_cast<double>(call.input_bytes) / static_cast<double>(report.output_bytes);
  report.identity = artifact.identity();
  if (!call.data) return;
  try {
    report.after = evaluate(call.model, call.data->test, call.data->metric, call.progress);
    if (const std::size_t exits = call.model.exits().size(); exits > 0) {
      call.model.take_exit(static_cast<std::int64_t>(exits));
      report.last_exit = evaluate(call.model, call.data->test, call.data->metric, call.progress);
      call.model.take_exit(0);
    }
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    throw Error(Errc::kInterrupted, "stopped on request; " + call.options.output.string() +
                                        " is written and whole, but was not evaluated");
  }
}

void compare_with_target(const CompressRun& call, CompressReport& report) {
  if (call.wanted_bytes() > 0 && report.output_bytes > call.wanted_bytes()) {
    report.target_met = false;
    const std::string bytes = std::to_string(report.output_bytes);
    if (report.target_note.empty())
      report.target_note =
          "the target is " + std::to_string(call.wanted_bytes()) + " bytes, and " +
          (stores_exactly(call.options.bottleneck)
               ? "exact values take " + bytes + "; use `mode` quantized"
               : "the file has " + bytes + "; exact tensors and the smallest g-nets take the rest");
  }
  const std::optional<double>& most = call.options.target.max_error;
  if (most && report.target_note.empty() && report.weight_error > *most) {
    report.target_met = false;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the target error is %g; with the finest step sizes it is %.3g", *most,
                  report.weight_error);
    report.target_note = text;
  }
}

/// One thread for LibTorch as long as this lives, where a run is to give the same bytes for any
/// number of them: its sums depend on how many compute a part.
class SameBytesForAnyThreads {
 public:
  explicit SameBytesForAnyThreads(const CompressOptions& options) : before_(at::get_num_threads()) {
    if (options.train.shards > 0) at::set_num_threads(1);
  }
  ~SameBytesForAnyThreads() { at::set_num_threads(before_); }
  SameBytesForAnyThreads(const SameBytesForAnyThreads&) = delete;
  SameBytesForAnyThreads& operator=(const SameBytesForAnyThreads&) = delete;

 private:
  int before_;
};

void measure_cost(CompressReport& report, Clock::time_point start) {
  report.peak_memory_bytes = peak_memory_bytes();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CompressionPlan plan_compression(Model& model, std::int64_t input_bytes, const Data* data,
                                 Model* teacher, const Registry& registry,
                                 const CompressOptions& options) {
  const ProgressSink silent;
  const auto call = make_run({model, input_bytes, data, teacher, registry, silent}, options);
  return estimated_plan(*call);
}

CompressReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                        const Registry& registry, const CompressOptions& options,
                        const ProgressSink& progress) {
  const auto start = Clock::now();
  const SameBytesForAnyThreads threads(options);
  if (leads(options)) check_writable(options.output, options.overwrite);
  const auto call = make_run({model, input_bytes, data, teacher, registry, progress}, options);
  CompressReport report;
  measure_original(*call, report);
  prepare(*call);
  std::optional<Originals> originals;
  if (!writes_weights(*call)) originals.emplace(*call);
  std::optional<ModelRun> run(*call);
  const PlanResult result = run_plan(call->plan, *run);
  describe(*call, result, run->bottleneck(), report);
  report.bytes_per_step = run->bytes_per_step();
  call->checkpoints.finish();
  if (!leads(options)) return report;
  std::optional<ArtifactReader> artifact = run->written();
  // What follows expands the file, and needs their memory.
  run.reset();
  call->allocation.reset();
  if (artifact) {
    report.tensors = result.made.weights->tensors;
  } else {
    report.tensors = originals->compare(*call, result.made.file);
    originals.reset();
    call->originals.reset();
    warn_of_lost_model(*call, result.made);
    artifact = write(*call, result.made.file);
  }
  if (options.remove_checkpoints) call->checkpoints.remove();
  measure_file(*call, *artifact, report);
  compare_with_target(*call, report);
  measure_cost(report, start);
  return report;
}

}  // namespace gbcompress
