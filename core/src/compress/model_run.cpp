#include "compress/model_run.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "bottleneck/internals.h"
#include "bottleneck/parameter_gnets.h"
#include "compress/notes.h"
#include "compress/quality/above_chance.h"
#include "compress/quality/losses.h"
#include "compress/verify.h"
#include "gbcompress/error.h"
#include "quantize/encode_weights.h"

namespace gbcompress {
namespace {

/// Lambda of training that only shows what can be learned without the held-out split, over the one
/// where a search begins.
constexpr double kRelearningLambda = 0.001;

const Attempts::State& entries(const LambdaRun::State& state) {
  return *static_cast<const Attempts::State*>(state.get());
}

/// Of the call's target.
WeightsOptions weights_options(const CompressRun& call) {
  const CompressOptions& from = call.options;
  WeightsOptions options{.measure = from.train.rate.measure,
                         .quantizer = from.train.rate.quantizer,
                         .arch = call.model.arch(),
                         .settings = from.settings,
                         .overwrite = from.overwrite};
  options.max_error = from.target.max_error;
  if (!options.max_error) options.max_bytes = std::max<std::int64_t>(call.wanted_bytes(), 1);
  options.targets = tensor_targets(from.bottleneck);
  for (const NamedParameter& p : call.model.tensors())
    if (mode_of(p.info.name, from.bottleneck) == WeightMode::kExact)
      options.exact.push_back(p.info.name);
  return options;
}

}  // namespace

bool writes_weights(const CompressRun& call) {
  return call.plan.methods == std::vector{Method::kDataFree} && !call.plan.compares_files &&
         !call.plan.max_drop && call.quantized() && !has_gnets(call.options.bottleneck);
}

ModelRun::ModelRun(CompressRun& call)
    : call_(call), attempts_(call), epochs_(call.options.train.epochs) {
  if (call.plan.compares_files)
    held_out_.emplace(call.model, call.split->held_out, call.data->metric);
  // A drop takes several attempts, each from the first values.
  if (call.plan.max_drop && !call.originals && call.plan.methods.back() != Method::kRateSearch)
    first_values_.emplace(call.model);
}

bool ModelRun::leads() const { return !call_.options.group || call_.options.group->rank() == 0; }

void ModelRun::begin(Method method) {
  if (std::exchange(began_, true) && call_.originals) call_.originals->restore(call_.model);
  bottleneck_.reset();
  calibrated_.reset();
  made_ = false;
  const bool untrained =
      method == Method::kExact || method == Method::kDataFree || method == Method::kCalibrated;
  call_.options.train.epochs = untrained && call_.several_methods() ? 0 : epochs_;
  call_.trained = !untrained && call_.may_train();
  if (call_.trained && call_.several_methods()) train_instead(call_);
}

void ModelRun::make(std::int64_t bytes) {
  const std::optional<ModelSnapshot>& first = call_.originals ? call_.originals : first_values_;
  if (std::exchange(made_, true) && first) first->restore(call_.model);
  bottleneck_.reset();
  calibrated_.reset();
  if (!call_.trained && bytes > 0 && call_.calibrated && from_weights()) {
    WeightsOptions options = weights_options(call_);
    options.max_error.reset();
    calibrated_ = call_.calibrated->best(
        call_, options, bytes,
        call_.options.minutes ? std::function<bool()>([&] { return within_training_time(); })
                              : nullptr);
    return;
  }
  bottleneck_.emplace(
      attempts_.run(bytes > 0 ? sized_to(call_, bytes) : call_.options.bottleneck, bytes));
}

bool ModelRun::from_weights() const {
  return call_.quantized() && !has_gnets(call_.options.bottleneck);
}

Candidate ModelRun::data_free() {
  if (!from_weights()) {
    make(call_.wanted_bytes());
    return candidate();
  }
  if (writes_weights(call_)) return write_weights();
  Candidate candidate;
  if (!leads()) return candidate;
  EncodedWeights encoded = encode_weights(
      model_bundle(call_.model), call_.options.output.parent_path(), weights_options(call_));
  candidate.file = std::move(encoded.file);
  candidate.weights = std::move(encoded.report);
  return candidate;
}

Candidate ModelRun::write_weights() {
  Candidate candidate;
  if (!leads()) return candidate;
  WeightsOptions options = weights_options(call_);
  options.look = [&](const ArtifactReader& file) { written_ = file; };
  const at::NoGradGuard no_grad;
  candidate.weights = compress_weights(model_bundle(call_.model), call_.options.output, options);
  candidate.target_met = candidate.weights->target_met;
  candidate.note = candidate.weights->target_note;
  return candidate;
}

double ModelRun::kept() {
  return call_.above_chance ? of_first_rank(call_.above_chance->kept(call_.model)) : 1;
}

double ModelRun::drop() { return of_first_rank(call_.drop_estimate->drop(call_.model)); }

QualityDrop ModelRun::measured(const std::vector<std::byte>& file) {
  QualityDrop drop;
  if (leads()) {
    take_values(call_, file);
    drop = held_out_->drop(call_.model);
  }
  return {of_first_rank(drop.drop), of_first_rank(drop.standard_error)};
}

std::int64_t ModelRun::bytes_of(const std::vector<std::byte>& file) const {
  return static_cast<std::int64_t>(of_first_rank(static_cast<double>(file.size())));
}

std::int64_t ModelRun::attempts_done() const {
  const auto& resumed = call_.checkpoints.resumed();
  return resumed ? resumed->attempt : 0;
}

/// By this rank's clock.
bool ModelRun::within_training_time() const {
  if (!call_.options.minutes) return true;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - call_.start;
  return spent.count() < 60 * kTrainingPart * *call_.options.minutes;
}

bool ModelRun::time_to_train() const { return of_first_rank(within_training_time()) > 0; }

LambdaRun::State ModelRun::beginning() {
  if (!beginning_)
    bottleneck_.emplace(attempts_.begin(
        call_.wanted_bytes() > 0 ? sized_to(call_, call_.wanted_bytes()) : call_.options.bottleneck,
        &beginning_));
  return beginning_;
}

bool ModelRun::looks_for_leakage() const {
  const CompressOptions& options = call_.options;
  // Looked at if all are integers and one training is like another.
  return options.target.max_drop && call_.quantized() && !has_gnets(options.bottleneck) &&
         options.train.strategy.name == StrategyChoice().name;
}

LambdaRun::State ModelRun::state() const {
  return std::make_shared<const Attempts::State>(bottleneck_->training_state());
}

void ModelRun::restore(const State& state) { bottleneck_->restore_training_state(entries(state)); }

std::optional<TrainingRun::Resumed> ModelRun::resumed() {
  if (!attempts_.at.search) return {};
  Resumed resumed{lambda_search_state_of(*attempts_.at.search), {}, attempts_.at.kept_state};
  const LambdaSearchState& state = resumed.search;
  if (call_.drop_estimate)
    call_.drop_estimate->set_state(
        {state.baseline, state.noise, state.baseline_seen, state.relearned});
  call_.above_chance->set_best(state.best_above_chance);
  if (attempts_.at.best_file) resumed.best_file = *attempts_.at.best_file;
  resumed_ = true;
  return resumed;
}

void ModelRun::save(LambdaSearchState search, const std::vector<std::byte>& best_file,
                    const State& base) {
  const DropEstimate::State measured =
      call_.drop_estimate ? call_.drop_estimate->state() : DropEstimate::State();
  search.baseline = measured.baseline;
  search.noise = measured.noise;
  search.baseline_seen = measured.baseline_seen;
  search.relearned = measured.relearned;
  search.best_above_chance = call_.above_chance->best();
  attempts_.at.search = std::make_shared<const std::vector<std::byte>>(to_cbor(search));
  attempts_.at.best_file =
      best_file.empty() ? nullptr : std::make_shared<const std::vector<std::byte>>(best_file);
  attempts_.at.kept_state = std::static_pointer_cast<const Attempts::State>(base);
  ++attempts_.at.attempt;
  attempts_.at.phase = "train";
  attempts_.at.done = 0;
}

/// A run that is resumed keeps its moments.
void ModelRun::begin_at(const RateOptions& rate) {
  const Attempts::State state = resumed_ ? bottleneck_->training_state() : Attempts::State();
  bottleneck_->restart(rate);
  if (resumed_) bottleneck_->restore_training_state(state);
  resumed_ = false;
}

LambdaPoint ModelRun::attempt(double lambda, double from, bool baseline) {
  TrainOptions options = call_.options.train;
  options.rate.lambda = lambda;
  options.rate.first_lambda = from;
  if (from > 0) options.epochs = later_epochs(options.epochs);
  begin_at(attempts_.rate(options));
  attempts_.train(*bottleneck_, options);
  attempts_.settle(*bottleneck_, 0);
  LambdaPoint point{.lambda = lambda, .bytes = bottleneck_->bytes(), .from = from};
  if (call_.wanted_bytes() > 0) point.collapsed = kept() < kLeastKept;
  if (baseline) call_.drop_estimate->take_baseline(call_.model);
  if (call_.drop_estimate) point.drop = call_.drop_estimate->drop(call_.model);
  point.bytes = static_cast<std::int64_t>(of_first_rank(static_cast<double>(point.bytes)));
  point.drop = of_first_rank(point.drop);
  return point;
}

Candidate ModelRun::candidate() {
  Candidate candidate =
      calibrated_ ? *calibrated_ : Candidate{.file = BottleneckFile::encode(*bottleneck_)};
  if (call_.above_chance) candidate.loss = of_first_rank(call_.above_chance->loss(call_.model));
  candidate.kept = kept();
  if (call_.trained && call_.has_rate() && !call_.plan.max_drop)
    candidate.lambda = call_.options.train.rate.lambda;
  return candidate;
}

Candidate ModelRun::cut_to(std::int64_t bytes) {
  RateOptions rate = attempts_.rate(call_.options.train);
  rate.max_bytes = bytes;
  bottleneck_->restart(rate);
  bottleneck_->finish();
  return candidate();
}

bool ModelRun::may_leak(double allowed) {
  return of_first_rank(call_.drop_estimate->may_leak(call_.model, allowed)) > 0;
}

/// Trains from the weights of the last attempt, which are too coarse to remember single samples, as
/// the given model seems to have been trained, at next to no lambda. No step of it is saved: a run
/// that is resumed meanwhile trains it anew.
void ModelRun::train_without_leakage() {
  TrainOptions options = call_.options.train;
  options.rate.lambda *= kRelearningLambda;
  options.epochs = later_epochs(options.epochs);
  options.shift = std::min(options.shift, call_.own_augmentation.shift);
  options.flip = options.flip && call_.own_augmentation.flip;
  // Made of the model as it is: zeros of the attempt are weights like others again.
  BottleneckOptions whole = call_.options.bottleneck;
  whole.rate = attempts_.rate(options);
  bottleneck_->restore_training_state(
      GenomicBottleneck(call_.model.tensors(), call_.registry, whole, call_.options.group)
          .training_state());
  bottleneck_->restart(whole.rate);
  train(call_.model, *bottleneck_, *call_.train, options, call_.teacher, call_.progress,
        {.after_step = [&](std::int64_t) { call_.checkpoints.after_step_aside(); }});
}

double ModelRun::leakage() {
  const RunPosition position = attempts_.at;
  const std::vector<StateEntry> state = bottleneck_->training_state();
  try {
    train_without_leakage();
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    bottleneck_->restore_training_state(state);
    call_.checkpoints.after_step(position, *bottleneck_);  // saves, and throws
  }
  bottleneck_->finish();
  const double before = call_.drop_estimate->state().baseline;
  call_.drop_estimate->take_relearned(call_.model);
  const double leakage = of_first_rank(before - call_.drop_estimate->state().baseline);
  bottleneck_->restore_training_state(state);
  return leakage;
}

/// Whether the minutes that were given leave time.
bool ModelRun::time_for(std::chrono::steady_clock::duration last) const {
  if (!call_.options.minutes) return true;
  const std::chrono::duration<double> end = std::chrono::steady_clock::now() - call_.start + last;
  return of_first_rank(end.count() <= 60 * *call_.options.minutes) > 0;
}

void ModelRun::tell(const std::string& line) const {
  if (call_.options.tell) call_.options.tell(line);
}

void ModelRun::show(const LambdaPoint& point, std::int64_t done, bool baseline) const {
  if (!call_.progress) return;
  Progress progress{"attempt", done, call_.attempts, std::numeric_limits<double>::quiet_NaN()};
  progress.measured = {{"lambda", point.lambda}, {"bytes", static_cast<double>(point.bytes)}};
  if (call_.drop_estimate && !baseline) progress.measured["held_out_drop"] = point.drop;
  call_.progress(progress);
}

std::string ModelRun::drop_text(double drop) const {
  return gbcompress::drop_text(call_.data->metric, drop);
}

}  // namespace gbcompress
