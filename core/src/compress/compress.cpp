#include "gbcompress/compress.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/file.h"
#include "bottleneck/internals.h"
#include "bottleneck/planner.h"
#include "compress/from_weights.h"
#include "compress/job.h"
#include "compress/ladder.h"
#include "compress/losses.h"
#include "compress/plan.h"
#include "compress/search.h"
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

void measure_original(Job& job) {
  CompressReport& report = job.report;
  report.input_bytes = job.input_bytes;
  for (const NamedParameter& p : job.model.tensors())
    if (p.trainable && p.tied_to.empty()) report.parameters += p.info.elements();
  if (!job.data) return;
  report.metric = job.data->metric;
  report.before = evaluate(job.model, job.data->test, job.data->metric, job.progress);
}

const char* method_name(const Job& job) {
  const WeightMode mode = job.options.bottleneck.mode;
  if (job.trained && mode != WeightMode::kGenerated) return "trained";
  if (job.allocation) return "calibrated";
  const char* names[] = {"generated", "data-free", "exact"};
  return names[static_cast<int>(mode)];
}

/// What the bottleneck knows and the file does not say.
void describe(Job& job, const Outcome& outcome) {
  CompressReport& report = job.report;
  if (report.method.empty()) report.method = method_name(job);
  if (!outcome.bottleneck) {
    report.allocation = "the weights (data-free)";
    report.plain_parameters = report.parameters;
    if (outcome.weights) report.weight_error = outcome.weights->total_error;
    return;
  }
  const GenomicBottleneck& bottleneck = *outcome.bottleneck;
  report.gnet_parameters = gnet_parameters(bottleneck);
  report.plain_parameters = plain_parameters(bottleneck);
  report.generated_tensors = static_cast<std::int64_t>(bottleneck.layers().size());
  report.description = bottleneck.describe();
  report.weight_error =
      job.residual() ? BottleneckInternals::relative_error(bottleneck) : weight_error(bottleneck);
  report.bytes_per_step = outcome.bytes_per_step;
  report.attempts = job.trained ? outcome.attempts : 0;
  report.price = outcome.price;
  report.train = job.options.train;
  report.learning_rate = job.options.bottleneck.residual_optimizer.lr;
  report.step_speed = job.options.bottleneck.step_speed;
  report.target_met = outcome.target_met;
  report.target_note = outcome.note;
  report.attempt_taken = outcome.taken;
  if (!job.residual() || job.trained) return;
  report.allocation = "the weights (data-free)";
  if (job.allocation) {
    report.allocation =
        std::to_string(job.allocation->samples()) + " training samples, " + job.allocation->rule();
    report.corrected_norms = job.allocation->corrected_norms();
  }
}

void warn_of_lost_model(const Job& job, const Outcome& outcome) {
  if (outcome.kept < AboveChance::kLeastKept && job.options.tell)
    job.options.tell("warning: the model in this file is collapsed: " +
                     AboveChance::describe(outcome.kept));
}

/// @return the file, opened before it got its name: another process may replace it at any time
ArtifactReader write(const Job& job, const Outcome& outcome) {
  AtomicFile file(job.options.output, job.options.overwrite);
  file.write(outcome.file);
  ArtifactReader artifact = ArtifactReader::open(file.flush());
  file.commit();
  return artifact;
}

/// From here on everything is about the file: opening checked its digest, expanding decodes it all.
void measure_file(Job& job, const ArtifactReader& artifact) {
  CompressReport& report = job.report;
  load_tensors(job.model, expand(artifact, job.registry));
  report.output_bytes = artifact.file_bytes();
  report.ratio = static_cast<double>(job.input_bytes) / static_cast<double>(report.output_bytes);
  report.identity = artifact.identity();
  if (!job.data) return;
  try {
    report.after = evaluate(job.model, job.data->test, job.data->metric, job.progress);
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    throw Error(Errc::kInterrupted, "stopped on request; " + job.options.output.string() +
                                        " is written and whole, but was not evaluated");
  }
}

void compare_with_target(Job& job) {
  CompressReport& report = job.report;
  if (job.wanted_bytes > 0 && report.output_bytes > job.wanted_bytes) {
    report.target_met = false;
    const std::string bytes = std::to_string(report.output_bytes);
    if (report.target_note.empty())
      report.target_note =
          "the target is " + std::to_string(job.wanted_bytes) + " bytes, and " +
          (stores_exactly(job.options.bottleneck)
               ? "exact values take " + bytes + "; use `mode` quantized"
               : "the file has " + bytes + "; exact tensors and the smallest g-nets take the rest");
  }
  const std::optional<double>& most = job.options.target.max_error;
  if (most && report.weight_error > *most) {
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

Outcome made_by_cheapest_method(Job& job) {
  if (!job.tries_cheaper) return attempt_all(job);
  if (!job.checkpoints.resumed())
    if (std::optional<Outcome> outcome = cheapest_without_training(job)) return *std::move(outcome);
  train_instead(job);
  return attempt_all(job);
}

}  // namespace

CompressPlan plan_compression(Model& model, std::int64_t input_bytes, const Data* data,
                              Model* teacher, const Registry& registry,
                              const CompressOptions& options) {
  const ProgressSink silent;
  const auto job = resolve(model, input_bytes, data, teacher, registry, options, silent);
  if (job->trained && job->tries_cheaper) train_instead(*job);
  return plan(*job);
}

CompressReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                        const Registry& registry, const CompressOptions& options,
                        const ProgressSink& progress) {
  const auto start = Clock::now();
  const SameBytesForAnyThreads threads(options);
  if (leads(options)) check_writable(options.output, options.overwrite);
  const auto job = resolve(model, input_bytes, data, teacher, registry, options, progress);
  measure_original(*job);
  prepare(*job);
  if (is_from_weights(*job)) {
    const std::optional<ArtifactReader> artifact = write_from_weights(*job);
    job->checkpoints.finish();
    if (!artifact) return job->report;
    measure_file(*job, *artifact);
    measure_cost(job->report, start);
    return job->report;
  }
  std::optional<Originals> originals(*job);
  Outcome outcome = made_by_cheapest_method(*job);
  describe(*job, outcome);
  job->checkpoints.finish();
  if (!leads(options)) return job->report;
  // What follows expands the file, and needs their memory.
  outcome.bottleneck.reset();
  job->allocation.reset();
  originals->compare(*job, outcome.file);
  originals.reset();
  job->originals.reset();
  warn_of_lost_model(*job, outcome);
  const ArtifactReader artifact = write(*job, outcome);
  if (options.remove_checkpoints) job->checkpoints.remove();
  measure_file(*job, artifact);
  compare_with_target(*job);
  measure_cost(job->report, start);
  return job->report;
}

}  // namespace gbcompress
