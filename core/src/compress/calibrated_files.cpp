#include "compress/calibrated_files.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "compress/compress_run.h"
#include "compress/quality/losses.h"
#include "compress/verify.h"
#include "gbcompress/calibrate.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "statistics/calibrate.h"
#include "statistics/collect.h"
#include "statistics/layer_sequence.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kErrorBatch = 64, kErrorSamples = 1024;
/// Models with larger outputs are compared on fewer samples.
constexpr std::int64_t kErrorNumbers = 1 << 24;

/// What is compared: log probabilities of classes, or outputs. [positions, classes]
at::Tensor compared(Model& model, const Dataset& samples) {
  const at::NoGradGuard no_grad;
  model.train(false);
  std::vector<at::Tensor> outputs;
  std::int64_t numbers = 0;
  for (std::int64_t first = 0; first < samples.size() && numbers < kErrorNumbers;
       first += kErrorBatch) {
    throw_if_interrupted();
    const Batch batch = samples.range(first, std::min(kErrorBatch, samples.size() - first));
    const at::Tensor each = model.forward(batch.inputs).flatten(0, -2).to(at::kFloat);
    outputs.push_back(samples.has_classes() ? each.log_softmax(1) : each);
    numbers += outputs.back().numel();
  }
  return at::cat(outputs);
}

std::string line_of(const CandidateError& candidate, bool classes) {
  char line[200];
  std::snprintf(line, sizeof line, "%s: %lld bytes, %s %.3g%s on the held-out split",
                candidate.name.c_str(), static_cast<long long>(candidate.bytes),
                classes ? "KL divergence" : "squared output error", candidate.error,
                classes ? " nats" : "");
  return line;
}

/// The first rank's file on all ranks. [collective]
void share(Candidate& best, Group& group) {
  const bool first = group.rank() == 0;
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(best.file.size()), at::kLong);
  group.broadcast(size, 0).wait();
  at::Tensor content = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (first) std::memcpy(content.mutable_data_ptr(), best.file.data(), best.file.size());
  group.broadcast(content, 0).wait();
  if (first) return;
  best.file.resize(static_cast<std::size_t>(content.numel()));
  std::memcpy(best.file.data(), content.const_data_ptr(), best.file.size());
}

}  // namespace

/// Everything that the first size leaves for further ones.
struct CalibratedFiles::Comparison final : Evaluator {
  Comparison(CompressRun& run, CalibratedFiles& files, const WeightsOptions& options,
             const std::function<bool()>& time)
      : call(run),
        of(files),
        original(compared(files.model_, files.held_out_)),
        bundle(model_bundle(files.model_, run.originals->values())),
        folder(run.options.output) {
    check_finite_outputs(original.square());  // errors are of squares
    statistics = collect_statistics(files.model_, files.samples_, files.seed_);
    const bool classes = files.held_out_.has_classes();
    CalibrationOptions own{.weights = options, .folder = folder.path(), .time = time};
    if (run.options.tell)
      own.tell = [&tell = run.options.tell, classes](const CandidateError& each) {
        tell(line_of(each, classes));
      };
    calibration.emplace(bundle, statistics, *this, std::move(own));
  }

  void take(const std::filesystem::path& file) {
    call.originals->restore(call.model);
    take_values(call, read_file(file, static_cast<std::size_t>(std::filesystem::file_size(file))));
  }
  double error(const std::filesystem::path& file) override {
    take(file);
    const at::Tensor now = compared(of.model_, of.held_out_);
    const at::Tensor each = of.held_out_.has_classes() ? (original.exp() * (original - now)).sum(1)
                                                       : (original - now).square().sum(1);
    return each.mean().item<double>();
  }
  std::map<std::string, std::vector<float>> refitted(const std::filesystem::path& file) override {
    std::map<std::string, std::vector<float>> vectors;
    if (of.norms_.size() == 0) return vectors;
    take(file);
    of.norms_.apply(of.model_);
    fold_batch_norms(of.model_);
    for (const std::size_t i : of.norms_.vectors()) {
      const NamedParameter& p = of.model_.tensors()[i];
      const at::Tensor values = p.tensor.detach().to(at::kCPU, at::kFloat).contiguous();
      const float* const first = values.const_data_ptr<float>();
      vectors[p.info.name].assign(first, first + values.numel());
    }
    return vectors;
  }

  SequentialModel* sequential() override {
    if (!sequence) sequence.emplace(of.model_, *call.originals, of.samples_);
    return &*sequence;
  }

  CompressRun& call;
  CalibratedFiles& of;
  at::Tensor original;  ///< compared() of the values to be stored
  const TensorBundle bundle;
  const TemporaryFolder folder;
  Statistics statistics;
  std::optional<LayerSequence> sequence = {};
  std::optional<Calibration> calibration = {};
};

CalibratedFiles::CalibratedFiles(Model& model, const Dataset& samples, std::int64_t count,
                                 const Dataset& held_out, std::uint64_t seed)
    : model_(model),
      samples_(calibration_samples(samples, count, seed)),
      held_out_(calibration_samples(held_out, kErrorSamples, seed)),
      norms_(model, samples_),
      seed_(seed) {}

CalibratedFiles::~CalibratedFiles() = default;

Candidate CalibratedFiles::best(CompressRun& call, const WeightsOptions& options,
                                std::int64_t bytes, const std::function<bool()>& time) {
  Group* const group = call.options.group;
  Candidate best;
  if (!group || group->rank() == 0) {
    if (!comparison_) {
      call.originals->restore(model_);
      comparison_ = std::make_unique<Comparison>(call, *this, options, time);
    }
    CalibratedFile made = comparison_->calibration->best(bytes);
    best.file = read_file(made.file, static_cast<std::size_t>(made.report.output_bytes));
    best.weights = std::move(made.report);
    best.rule = std::move(made.method);
  }
  if (group && group->world() > 1) share(best, *group);
  call.originals->restore(model_);
  take_values(call, best.file);
  return best;
}

}  // namespace gbcompress
