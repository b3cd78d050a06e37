#include "gbcompress/compress.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "bottleneck/planner.h"
#include "gbcompress/error.h"
#include "train/attempt.h"
#include "train/check_options.h"
#include "train/drop_search.h"
#include "train/planned_size.h"

namespace gbcompress {
namespace {

/// Width of the g-nets' hidden layer when a size is asked for and the user named none: on
/// lenet-300-100 at 20x, widths 7 to 12 with small tiles end 1 point above width 32 with large
/// ones.
constexpr std::int64_t kSizedHidden = 12;
/// Training aims a little above the size that is asked, since integers can only be made cheaper
/// afterwards.
constexpr double kAimAbove = 1.02;

/// The training split without its last tenth, and that tenth: quality is judged on it, so that the
/// test split is only ever reported.
struct Judged {
  Dataset train, judge;
};
Judged hold_back(const Dataset& train) {
  const std::int64_t judge = std::max<std::int64_t>(1, train.size() / 10);
  const Batch kept = train.range(0, train.size() - judge);
  const Batch held = train.range(train.size() - judge, judge);
  return {Dataset(kept.inputs, kept.targets), Dataset(held.inputs, held.targets)};
}

/// Values that a new attempt starts from.
std::vector<at::Tensor> snapshot(const Model& model) {
  std::vector<at::Tensor> values;
  for (const NamedParameter& p : model.tensors()) values.push_back(p.tensor.detach().clone());
  return values;
}
void restore(Model& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) model.tensors()[i].tensor.copy_(values[i]);
}

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

/// Rank 0's number on every rank.
double of_rank_0(Group* group, double value) {
  if (!group || group->world() == 1) return value;
  at::Tensor shared = at::full({1}, value, at::kDouble);
  group->broadcast(shared, 0).wait();
  return shared.item<double>();
}

CheckpointFacts facts_of(const CompressOptions& options, const Model& model, const Data* data) {
  CheckpointFacts facts = options.facts;
  facts["model"] = model_digest(model.tensors());
  facts["data"] = data ? data_digest(*data) : "none";
  return facts;
}

}  // namespace

CompressReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                        const Registry& registry, const CompressOptions& options,
                        const ProgressSink& progress) {
  const auto start = std::chrono::steady_clock::now();
  check_options(options, model, data, teacher, input_bytes);
  const bool writes = !options.group || options.group->rank() == 0;
  if (writes) check_writable(options.output, options.overwrite);
  const CheckpointFacts facts = facts_of(options, model, data);
  if (options.group) {
    std::vector<Fact> shared;
    for (const auto& [name, value] : facts) shared.push_back({name, value});
    options.group->agree(shared);
  }
  TrainingCheckpoints checkpoints(options.checkpoints, facts, options.group, options.tell);

  CompressReport report;
  report.input_bytes = input_bytes;
  for (const NamedParameter& p : model.tensors())
    if (p.trainable && p.tied_to.empty()) report.parameters += p.info.elements();
  if (data) {
    report.metric = data->metric;
    report.before = evaluate(model, data->test, data->metric, progress);
  }

  BottleneckOptions sized = options.bottleneck;
  const bool residual = sized.mode == WeightMode::kResidual;
  const bool trained = trains(options, data);
  std::optional<Judged> split;
  if (options.target.max_drop) split = hold_back(data->train);
  std::optional<Allocation> allocation;
  if (residual && data && options.train.loss != Loss::kWeights && !trained &&
      options.train.rate.calibration > 0)
    allocation.emplace(model, split ? split->train : data->train, options.train);
  const FoldedNorms norms = residual ? fold_batch_norms(model) : FoldedNorms();
  if (norms.eps_unknown > 0 && options.tell)
    options.tell(std::to_string(norms.eps_unknown) +
                 " batch norms do not say what they add to the variance; 1e-5, the usual number, "
                 "is taken for it");
  if (allocation) allocation->weigh(model);
  const bool wants_size = options.target.ratio || options.target.max_bytes;
  if ((wants_size || options.target.max_drop || any_prior(sized)) && !options.hidden_given)
    sized.gnet.hidden = {kSizedHidden};
  std::int64_t wanted = options.target.max_bytes.value_or(0);
  if (options.target.ratio)
    wanted = static_cast<std::int64_t>(static_cast<double>(input_bytes) / *options.target.ratio);
  const auto size_to = [&](std::int64_t bytes) {
    SizedOptions result = options_for_size(model.tensors(), registry, sized, options.coding, bytes,
                                           model.arch(), options.settings);
    return result.options;
  };

  sized.coded_gnets = options.coding == Coding::kCoded || any_prior(sized);
  const bool priced = residual || sized.coded_gnets;
  if (options.train.shards > 0) sized.placement = Placement::kReplicated;
  Attempt attempt{model,   data ? &data->train : nullptr, teacher, registry, options, checkpoints,
                  progress};
  attempt.rate = options.train.rate;
  attempt.rate.file_bytes = [&](const GenomicBottleneck& now) { return attempt.file_bytes(now); };
  attempt.trained = trained;
  attempt.freeze_norms = norms.all > 0;
  attempt.allocation = std::move(allocation);
  const auto aim_at = [&](std::int64_t bytes) {
    attempt.wanted_bytes = bytes;
    if (priced)
      attempt.rate.max_bytes = static_cast<std::int64_t>(kAimAbove * static_cast<double>(bytes));
    return residual ? sized : size_to(bytes);
  };
  std::optional<GenomicBottleneck> bottleneck;
  if (options.target.max_drop) {
    const std::vector<at::Tensor> originals = snapshot(model);
    const double before = evaluate(model, split->judge, data->metric, progress);
    attempt.train_split = &split->train;
    const auto run_at = [&](double ratio) {
      restore(model, originals);
      bottleneck.emplace(
          attempt.run(aim_at(static_cast<std::int64_t>(static_cast<double>(input_bytes) / ratio))));
    };
    const bool cheap = residual && !trained;
    const std::int64_t first = cheap || !checkpoints.resumed() ? 0 : checkpoints.resumed()->attempt;
    DropSearch search(cheap);
    double drop = 0, ratio = 0;
    for (bool more = true; more; ++attempt.number) {
      ratio = search.ratio();
      const bool known = attempt.number < first;  // it missed, or it would be the last
      if (!known) {
        run_at(ratio);
        drop = of_rank_0(options.group,
                         metric_drop(data->metric, before,
                                     evaluate(model, split->judge, data->metric, progress)));
      }
      more = search.tried(!known && drop <= *options.target.max_drop);
    }
    report.target_met = search.best() > 0;
    if (report.target_met && search.best() != ratio) run_at(search.best());
    if (!report.target_met) {
      char text[160];
      std::snprintf(text, sizeof text,
                    "a drop of at most %g was asked; at the largest size tried it is %.3g on "
                    "held-back training data; try more epochs",
                    *options.target.max_drop, drop);
      report.target_note = text;
    }
  } else {
    bottleneck.emplace(attempt.run(wants_size ? aim_at(wanted) : sized));
  }

  report.gnet_parameters = bottleneck->gnet_parameters();
  report.plain_parameters = bottleneck->plain_parameters();
  report.generated_tensors = static_cast<std::int64_t>(bottleneck->layers().size());
  report.description = bottleneck->describe();
  report.bytes_per_step = attempt.bytes_per_step;
  if (residual && !trained) {
    report.allocation = "the weights alone";
    if (attempt.allocation) {
      report.allocation = std::to_string(attempt.allocation->samples()) + " training samples";
      report.corrected_norms = attempt.allocation->corrected_norms();
    }
  }
  checkpoints.finish();
  if (!writes) return report;
  {
    AtomicFile file(options.output, options.overwrite);
    file.write(attempt.file(*bottleneck));
    file.commit();
  }

  if (options.remove_checkpoints) checkpoints.remove();

  // From here on everything is about the file: opening checks its digest, expanding decodes it all.
  const ArtifactReader artifact = ArtifactReader::open(options.output);
  load_tensors(model, expand(artifact, registry));
  report.output_bytes = static_cast<std::int64_t>(std::filesystem::file_size(options.output));
  report.ratio = static_cast<double>(input_bytes) / static_cast<double>(report.output_bytes);
  report.identity = artifact.identity();
  report.weight_error = residual ? bottleneck->relative_error() : weight_error(*bottleneck);
  if (data) {
    try {
      report.after = evaluate(model, data->test, data->metric, progress);
    } catch (const Error& error) {
      if (error.code() != Errc::kInterrupted) throw;
      throw Error(Errc::kInterrupted, "stopped on request; " + options.output.string() +
                                          " is written and whole, but was not evaluated");
    }
  }
  if (wants_size && report.output_bytes > wanted) {
    report.target_met = false;
    report.target_note = "at most " + std::to_string(wanted) + " bytes were asked, the file has " +
                         std::to_string(report.output_bytes) +
                         "; tensors that are carried along or the smallest g-nets take the rest";
  }
  if (options.target.max_error && report.weight_error > *options.target.max_error) {
    report.target_met = false;
    char text[160];
    std::snprintf(text, sizeof text,
                  "an error of at most %g was asked; with the finest steps it is %.3g",
                  *options.target.max_error, report.weight_error);
    report.target_note = text;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  report.peak_memory_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace gbcompress
