#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "bottleneck/planner.h"
#include "compress/check_options.h"
#include "compress/job.h"
#include "compress/recipe.h"
#include "compress/timing.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress {
namespace {

/// Width of the g-nets' hidden layer when a size is asked for and the user named none: on
/// lenet-300-100 at 20x, widths 7 to 12 with small tiles end 1 point above width 32 with large
/// ones.
constexpr std::int64_t kSizedHidden = 12;
/// Attempts of a search for a price, and those of a model whose attempt costs less than
/// kCheapAttempt multiply-adds.
constexpr std::int64_t kAttempts = 4, kCheapAttempts = 6;
constexpr double kCheapAttempt = 2e12;
/// Points that a model may lose on pictures that are moved or mirrored and still count as trained
/// on such pictures.
constexpr double kSameAnswers = 0.5;
/// Attempts that are not given up for the time.
constexpr std::int64_t kFewestAttempts = 2;
/// Calibration of fewer multiply-adds takes up to so many times the samples.
constexpr double kCheapCalibration = 8e9, kMostCalibration = 16;
/// Seconds to train after cheaper methods, at least.
constexpr double kLeastBudget = 1;
/// Epochs by which time is judged where rounding them does not count.
constexpr std::int64_t kMany = 1000;
/// With minutes to spare an attempt has up to so many times the epochs it would have.
constexpr double kMostMore = 4;

CheckpointFacts facts_of(const CompressOptions& options, const Model& model, const Data* data) {
  CheckpointFacts facts = options.facts;
  facts["model"] = model_digest(model.tensors());
  facts["data"] = data ? data_digest(*data) : "none";
  return facts;
}

void agree(Group* group, const CheckpointFacts& facts) {
  if (!group) return;
  std::vector<Fact> shared;
  for (const auto& [name, value] : facts) shared.push_back({name, value});
  group->agree(shared);
}

/// Epochs and samples such that all attempts together take the minutes that were given.
void fit_to_minutes(Job& job) {
  TrainOptions& to = job.options.train;
  double budget = 60 * kTrainingPart * *job.options.minutes;
  if (job.tries_cheaper) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - job.start;
    budget = std::max(budget - of_rank_0(job.options.group, spent.count()), kLeastBudget);
  }
  const Timing timing = time_training(job);
  std::int64_t samples = job.train->size();
  // Attempts are given up before samples are.
  while (job.attempts > kFewestAttempts && all_seconds(job, timing, 1) > budget) --job.attempts;
  const double one = all_seconds(job, timing, 1);
  const double fitting = std::floor(budget / std::max(all_seconds(job, timing, kMany), 1e-9) *
                                    static_cast<double>(kMany));
  const double most = kMostMore * static_cast<double>(to.epochs);
  to.epochs = static_cast<std::int64_t>(std::clamp(fitting, 1.0, most));
  if (one > budget)
    samples = std::max<std::int64_t>(
        to.batch, static_cast<std::int64_t>(budget / one * static_cast<double>(samples)));
  // A run that is taken up goes on with what it began with, whatever the clock says now.
  const auto chosen = [&](const char* name, std::int64_t value) {
    return std::stoll(job.checkpoints.chosen_fact(name, std::to_string(value)));
  };
  to.epochs = chosen("epochs for the minutes", to.epochs);
  samples = chosen("samples for the minutes", samples);
  if (samples < job.train->size()) {
    if (!job.split) job.split.emplace(HeldBack{*job.train, *job.train});
    job.split->train = some_of(*job.train, samples, to.seed);
    job.train = &job.split->train;
  }
}

void choose_training(Job& job) {
  CompressOptions& options = job.options;
  const bool chosen_epochs = options.choose.epochs;
  if (job.priced())
    choose_recipe(options, job.model, *job.data, *job.train, job.teacher != nullptr);
  if (!job.searches_price()) {
    job.attempts = 1;
  } else {
    const double cost = multiply_adds(job.model, *job.train) *
                        static_cast<double>(job.train->size()) *
                        static_cast<double>(options.train.epochs);
    job.attempts = cost < kCheapAttempt ? kCheapAttempts : kAttempts;
  }
  if (options.minutes && chosen_epochs) fit_to_minutes(job);
}

void warn_of_idle_rules(const CompressOptions& options, const Model& model) {
  if (!options.tell) return;
  for (const std::string& note : options.notes) options.tell(note);
  std::vector<std::string> names;
  for (const NamedParameter& p : model.tensors()) names.push_back(p.info.name);
  for (const std::string& line : idle_rule_warnings(options.bottleneck.layers, names))
    options.tell(line);
}

}  // namespace

double of_rank_0(Group* group, double value) {
  if (!group || group->world() == 1) return value;
  at::Tensor shared = at::full({1}, value, at::kDouble);
  group->broadcast(shared, 0).wait();
  return shared.item<double>();
}

bool Job::priced() const {
  const BottleneckOptions& o = options.bottleneck;
  return residual() || o.coding == Coding::kCoded ||
         std::any_of(o.layers.begin(), o.layers.end(),
                     [](const LayerRule& rule) { return rule.mode == WeightMode::kQuantized; });
}

std::unique_ptr<Job> resolve(Model& model, std::int64_t input_bytes, const Data* data,
                             Model* teacher, const Registry& registry, const CompressOptions& given,
                             const ProgressSink& progress) {
  check_options(given, model, data, teacher, input_bytes);
  CompressOptions options = given;
  const auto bytes = target_bytes(options.target, input_bytes, elements_of(model));
  if (options.target.bits) options.target = {.max_bytes = bytes};
  check_strategy(options.train.strategy, registry);
  CheckpointFacts facts = facts_of(options, model, data);
  agree(options.group, facts);
  auto job = std::unique_ptr<Job>(new Job{
      model, input_bytes, data, teacher, registry, progress, options,
      TrainingCheckpoints(options.checkpoints, std::move(facts), options.group, options.tell)});
  job->trained = trains(options, data);
  job->effort = effort_of(options);
  job->tries_cheaper = data && tries_cheaper_methods(options);
  if (job->effort == Effort::kFast) job->options.train.epochs = 0;
  BottleneckOptions& to = job->options.bottleneck;
  const Target& target = options.target;
  to.arch = model.arch();
  to.settings = options.settings;
  if (any_prior(to)) to.coding = Coding::kCoded;
  if (options.train.shards > 0) to.placement = Placement::kReplicated;
  if ((target.ratio || target.max_bytes || target.max_drop || any_prior(to)) &&
      !options.hidden_given)
    to.gnet.hidden = {kSizedHidden};
  job->wanted_bytes = bytes.value_or(0);
  warn_of_idle_rules(options, model);
  if (data) job->train = &data->train;
  if (target.max_drop || target.no_loss) {
    job->split = hold_back(data->train, options.train.seed);
    job->train = &job->split->train;
    job->judge.emplace(model, *job->split, data->metric, options.from_scratch, options.train.seed);
    if (target.max_drop && job->trained && !options.from_scratch &&
        data->metric == Metric::kAccuracy)  // where memory is looked for
      job->own_augmentation =
          harmless_augmentation(model, *job->train, data->metric, options.train.seed, kSameAnswers);
  }
  if (data) job->above_chance.emplace(model, *job->train, data->metric, options.train.seed);
  if (job->trained && !job->tries_cheaper) choose_training(*job);
  return job;
}

std::int64_t calibration_count(const Job& job) {
  const std::int64_t count = job.options.train.rate.calibration;
  const double cost = multiply_adds(job.model, *job.train) * static_cast<double>(count);
  return static_cast<std::int64_t>(static_cast<double>(count) *
                                   std::clamp(kCheapCalibration / cost, 1.0, kMostCalibration));
}

namespace {

/// What second moments are taken from and rules are judged by must be more than a handful.
constexpr std::int64_t kFewestPredictions = 48;

void check_enough(const Dataset& train) {
  const std::int64_t each = train.predictions();
  const std::int64_t least = std::max<std::int64_t>(2, (kFewestPredictions + each - 1) / each);
  if (train.size() < least)
    throw Error(Errc::kUsage,
                "calibration needs at least " + std::to_string(least) +
                    " training samples, and these data have " + std::to_string(train.size()) +
                    "; give more, or set rate.calibration to 0 for data-free quantization");
}

void begin_allocation(Job& job) {
  const CompressOptions& options = job.options;
  check_enough(*job.train);
  if (!job.split) {
    job.split = hold_back(*job.train, options.train.seed);
    job.train = &job.split->train;
  }
  job.allocation.emplace(job.model, *job.train, calibration_count(job), job.split->judge,
                         options.train, options.tell);
}

}  // namespace

void train_instead(Job& job) {
  job.trained = true;
  job.allocation.reset();
  job.originals.reset();
  job.split.reset();
  job.train = &job.data->train;
  choose_training(job);
}

void prepare(Job& job) {
  const CompressOptions& options = job.options;
  if (!job.residual()) return;
  const bool cheaper = job.tries_cheaper && !job.checkpoints.resumed();
  if (job.data && options.train.loss != Loss::kWeights && (!job.trained || cheaper) &&
      options.train.rate.calibration > 0)
    begin_allocation(job);
  if (cheaper && !job.split) job.split = hold_back(*job.train, options.train.seed);
  const FoldedNorms norms = fold_batch_norms(job.model);
  job.options.train.freeze_norms = options.train.freeze_norms || norms.all > 0;
  if (norms.eps_unknown > 0 && options.tell)
    options.tell(std::to_string(norms.eps_unknown) +
                 " batch norms have no eps in the file; 1e-5, the usual value, is used");
  if (job.allocation || cheaper) job.originals.emplace(job.model);
  if (job.allocation && !cheaper) job.allocation->weigh(*job.originals, options.group);
}

}  // namespace gbcompress
