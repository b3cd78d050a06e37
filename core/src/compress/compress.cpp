#include "gbcompress/compress.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <optional>

#include "compress/compress_run.h"
#include "compress/describe.h"
#include "compress/estimate.h"
#include "compress/model_run.h"
#include "compress/quality/losses.h"
#include "compress/run_plan.h"
#include "compress/timing.h"
#include "compress/verify.h"
#include "gbcompress/atomic_file.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

bool leads(const CompressOptions& options) { return !options.group || options.group->rank() == 0; }

void warn_of_lost_model(const CompressRun& call, const Candidate& made) {
  if (made.collapsed() && call.options.tell)
    call.options.tell("warning: the model in this file is collapsed: " +
                      AboveChance::describe(made.kept));
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

}  // namespace

CompressionPlan plan_compression(Model& model, std::int64_t input_bytes, const Data* data,
                                 Model* teacher, const Registry& registry,
                                 const CompressOptions& options) {
  const ProgressSink silent;
  const auto call = make_run({model, input_bytes, data, teacher, registry, silent}, options);
  return estimated_plan(*call);
}

CompressionReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                           const Registry& registry, const CompressOptions& options,
                           const ProgressSink& progress) {
  const auto start = Clock::now();
  const SameBytesForAnyThreads threads(options);
  if (leads(options)) check_writable(options.output, options.overwrite);
  const auto call = make_run({model, input_bytes, data, teacher, registry, progress}, options);
  CompressionReport report;
  describe_original(*call, report);
  prepare(*call);
  std::optional<Originals> originals;
  if (!writes_weights(*call)) originals.emplace(*call);
  std::optional<ModelRun> run(*call);
  const PlanResult result = run_plan(call->plan, *run);
  describe(*call, result, run->bottleneck(), report);
  report.bytes_per_step = run->bytes_per_step();
  if (options.group) report.world = options.group->world();
  call->checkpoints.finish();
  if (!leads(options)) return report;
  std::optional<ArtifactReader> artifact = run->written();
  // What follows expands the file, and needs their memory.
  run.reset();
  call->calibrated.reset();
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
  if (call->options.tell)
    for (const std::string& note : report.notes) call->options.tell(note);
  verify(*call, *artifact, report);
  report.peak_memory_bytes = peak_memory_bytes();
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace gbcompress
