#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "bottleneck/parameter_gnets.h"
#include "bottleneck/sized_gnets.h"
#include "compress/check_options.h"
#include "compress/compress_run.h"
#include "compress/recipe.h"
#include "compress/timing.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/recipe.h"

namespace gbcompress {
namespace {

/// Width of the hidden layer of g-nets that rules name, where the user named none.
constexpr std::int64_t kHiddenByRule = 12;
/// Weights for each g-net parameter while the target size is not known.
constexpr double kUnsizedRatio = 10;
/// Attempts of a search for lambda, and those of a model whose attempt costs less than
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
/// Epochs by which the time is estimated, so many that rounding them does not count.
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
void fit_to_minutes(CompressRun& call) {
  TrainOptions& to = call.options.train;
  double budget = 60 * kTrainingPart * *call.options.minutes;
  if (call.several_methods()) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - call.start;
    budget = std::max(budget - of_rank_0(call.options.group, spent.count()), kLeastBudget);
  }
  const Timing timing = time_training(call);
  std::int64_t samples = call.train->size();
  // Attempts are given up before samples are.
  while (call.attempts > kFewestAttempts && all_seconds(call, timing, 1) > budget) --call.attempts;
  const double one = all_seconds(call, timing, 1);
  const double fitting = std::floor(budget / std::max(all_seconds(call, timing, kMany), 1e-9) *
                                    static_cast<double>(kMany));
  const double most = kMostMore * static_cast<double>(to.epochs);
  to.epochs = static_cast<std::int64_t>(std::clamp(fitting, 1.0, most));
  if (one > budget)
    samples = std::max<std::int64_t>(
        to.batch, static_cast<std::int64_t>(budget / one * static_cast<double>(samples)));
  // A resumed run keeps the choices that it began with, whatever the clock says now.
  const auto chosen = [&](const char* name, std::int64_t value) {
    return std::stoll(call.checkpoints.chosen_fact(name, std::to_string(value)));
  };
  to.epochs = chosen("epochs for the minutes", to.epochs);
  samples = chosen("samples for the minutes", samples);
  if (samples < call.train->size()) {
    if (!call.split) call.split.emplace(HeldOutSplit{*call.train, *call.train});
    call.split->train = some_of(*call.train, samples, to.seed);
    call.train = &call.split->train;
  }
}

/// The training as it is chosen, in the plan that is executed, printed and reported.
void state_training(CompressRun& call) {
  CompressionPlan& plan = call.plan;
  plan.train = call.options.train;
  plan.learning_rate = call.learning_rate();
  plan.step_speed = call.options.bottleneck.step_speed;
  plan.attempts = call.attempts;
  plan.training_samples = call.train->size();
}

void choose_training(CompressRun& call) {
  CompressOptions& options = call.options;
  const bool chosen_epochs = options.choose.epochs;
  if (call.has_rate())
    choose_recipe(options, call.model, *call.data, *call.train, call.teacher != nullptr);
  if (call.plan.methods.back() != Method::kRateSearch) {
    call.attempts = 1;
  } else {
    const double cost = multiply_adds(call.model, *call.train) *
                        static_cast<double>(call.train->size()) *
                        static_cast<double>(options.train.epochs);
    call.attempts = cost < kCheapAttempt ? kCheapAttempts : kAttempts;
  }
  if (options.minutes && chosen_epochs) fit_to_minutes(call);
  state_training(call);
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

bool CompressRun::has_rate() const {
  const BottleneckOptions& o = options.bottleneck;
  return quantized() || o.coding == Coding::kCoded ||
         std::any_of(o.layers.begin(), o.layers.end(),
                     [](const LayerRule& rule) { return rule.mode == WeightMode::kQuantized; });
}

bool CompressRun::may_train() const { return gbcompress::trains(options, data); }

namespace {

/// Beside coded g-nets, parameters that get none are quantized, their bits in the loss too. Rules
/// of the user come later, and win.
void quantize_plain(BottleneckOptions& to, const Model& model, const Registry& registry) {
  constexpr double kSomeRatio = 2;  // which parameters get g-nets hardly depends on it
  BottleneckOptions sized = to;
  sized.gnet.ratio = kSomeRatio;
  std::vector<LayerRule> rules;
  for (const NamedParameter& p : model.tensors())
    if (codes_plain(p, to) && !spec_of(p, registry, sized))
      rules.push_back({.match = p.info.name, .mode = WeightMode::kQuantized});
  to.layers.insert(to.layers.begin(), rules.begin(), rules.end());
}

/// What recipe.h says of all that is the program's to choose.
/// @param ratio  of the target size; 0: there is none
void take_recipe(CompressRun& call, double ratio) {
  CompressOptions& options = call.options;
  BottleneckOptions& to = options.bottleneck;
  const Choices& choose = options.choose;
  const GNetRecipe recipe = gnet_recipe(
      to.gnet, choose.generator && !options.hidden_given && leaves_generator_open(to), ratio);
  const std::vector<std::int64_t> hidden = to.gnet.hidden;
  to.gnet = recipe.gnet;
  // Until the recipe sets it: a run is timed before.
  if (is_product(to.gnet.generator) && to.gnet.rank == 0)
    to.gnet.ratio = ratio > 0 ? ratio : kUnsizedRatio;
  if (options.hidden_given) to.gnet.hidden = hidden;
  if (choose.gnet_lr) to.gnet_optimizer.lr = recipe.lr;
  if (choose.gnet_decay) to.gnet_optimizer.weight_decay = recipe.weight_decay;
  if (choose.code_plain) to.code_plain = recipe.code_plain;
  if (choose.coding && call.may_train()) to.coding = recipe.coding;
  if (to.coding == Coding::kCoded && to.code_plain) quantize_plain(to, call.model, call.registry);
}

/// Options of g-nets that follow from the target, the model and the ranks.
/// @param ratio  of the target size; 0: there is none
void settle_gnets(CompressRun& call, double ratio) {
  CompressOptions& options = call.options;
  BottleneckOptions& to = options.bottleneck;
  const Target& target = options.target;
  to.arch = call.model.arch();
  to.settings = options.settings;
  if (options.train.shards > 0) to.placement = Placement::kReplicated;
  const bool sized = target.ratio || target.max_bytes || target.max_drop;
  if (sized && to.mode == WeightMode::kGenerated)
    take_recipe(call, ratio);
  else if (sized && !options.hidden_given)
    to.gnet.hidden = {kHiddenByRule};
}

void hold_out_for_target(CompressRun& call) {
  const CompressOptions& options = call.options;
  const Data& data = *call.data;
  call.split = held_out_split(data.train, options.train.seed);
  call.train = &call.split->train;
  call.drop_estimate.emplace(call.model, *call.split, data.metric, options.from_scratch,
                             options.train.seed);
  call.plan.held_out = call.split->held_out.size();
  if (options.target.max_drop && call.may_train() && !options.from_scratch &&
      data.metric == Metric::kAccuracy)  // where leakage is measured
    call.own_augmentation = harmless_augmentation(call.model, *call.train, data.metric,
                                                  options.train.seed, kSameAnswers);
}

}  // namespace

std::unique_ptr<CompressRun> make_run(const CompressRequest& request,
                                      const CompressOptions& given) {
  check_options(given, request.model, request.data, request.teacher, request.input_bytes);
  CompressOptions options = given;
  const auto bytes = target_bytes(options.target, size_of(request.model, request.input_bytes));
  if (options.target.bits) options.target = {.max_bytes = bytes};
  check_strategy(options.train.strategy, request.registry);
  CheckpointFacts facts = facts_of(options, request.model, request.data);
  agree(options.group, facts);
  auto call = std::unique_ptr<CompressRun>(new CompressRun{
      request, options,
      TrainingCheckpoints(options.checkpoints, std::move(facts), options.group, options.tell)});
  const double ratio =
      bytes ? static_cast<double>(request.input_bytes) / static_cast<double>(*bytes) : 0;
  settle_gnets(*call, ratio);
  CompressionPlan& plan = call->plan;
  const RequestFacts given_facts{.data = request.data != nullptr,
                                 .resumes = call->checkpoints.resumed().has_value()};
  plan = plan_of(call->options, given_facts);
  check_executable(plan, given_facts);
  plan.max_bytes = bytes.value_or(0);
  plan.input_bytes = request.input_bytes;
  plan.max_drop = options.target.max_drop;
  if (plan.effort == Effort::kFast) call->options.train.epochs = 0;
  warn_of_idle_rules(options, request.model);
  if (request.data) call->train = &request.data->train;
  if (options.target.max_drop || options.target.no_loss) hold_out_for_target(*call);
  if (request.data)
    call->above_chance.emplace(request.model, *call->train, request.data->metric,
                               options.train.seed);
  if (call->may_train() && !call->several_methods()) choose_training(*call);
  return call;
}

std::int64_t calibration_count(const CompressRun& call) {
  const std::int64_t count = call.options.train.rate.calibration;
  const double cost = multiply_adds(call.model, *call.train) * static_cast<double>(count);
  return static_cast<std::int64_t>(static_cast<double>(count) *
                                   std::clamp(kCheapCalibration / cost, 1.0, kMostCalibration));
}

namespace {

/// Samples of second moments, and of the comparison of rules, must be more than a handful.
constexpr std::int64_t kFewestPredictions = 48;
/// An output that is no score is many numbers.
constexpr std::int64_t kFewestOutputs = 24;

void check_enough(const Dataset& train) {
  const std::int64_t each = train.predictions();
  const std::int64_t fewest = train.has_classes() ? kFewestPredictions : kFewestOutputs;
  const std::int64_t least = std::max<std::int64_t>(2, (fewest + each - 1) / each);
  if (train.size() < least)
    throw Error(Errc::kUsage,
                "calibration needs at least " + std::to_string(least) +
                    " training samples, and these data have " + std::to_string(train.size()) +
                    "; give more, or set rate.calibration to 0 for data-free quantization");
}

void hold_samples(CompressRun& call) {
  const CompressOptions& options = call.options;
  check_enough(*call.train);
  if (!call.split) {
    call.split = held_out_split(*call.train, options.train.seed);
    call.train = &call.split->train;
  }
  const std::int64_t count = calibration_count(call);
  call.calibrated.emplace(call.model, *call.train, count, call.split->held_out, options.train.seed);
}

}  // namespace

void train_instead(CompressRun& call) {
  call.calibrated.reset();
  call.originals.reset();
  call.split.reset();
  call.train = &call.data->train;
  choose_training(call);
}

void prepare(CompressRun& call) {
  const CompressOptions& options = call.options;
  if (!call.quantized()) return;
  const std::vector<Method>& methods = call.plan.methods;
  if (std::find(methods.begin(), methods.end(), Method::kCalibrated) != methods.end())
    hold_samples(call);
  if (call.plan.compares_files && !call.split)
    call.split = held_out_split(*call.train, options.train.seed);
  const FoldedNorms norms = fold_batch_norms(call.model);
  call.options.train.freeze_norms = options.train.freeze_norms || norms.all > 0;
  if (norms.eps_unknown > 0 && options.tell)
    options.tell(std::to_string(norms.eps_unknown) +
                 " batch norms have no eps in the file; 1e-5, the usual value, is used");
  if (call.calibrated || call.plan.compares_files) call.originals.emplace(call.model);
}

}  // namespace gbcompress
