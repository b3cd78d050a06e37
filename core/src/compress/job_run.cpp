#include "compress/job_run.h"

#include <algorithm>
#include <limits>

#include "bottleneck/internals.h"
#include "compress/above_chance.h"
#include "compress/notes.h"
#include "compress/search.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Lambda of training that only shows what can be learned without the held-out split, over the one
/// where a search begins.
constexpr double kRelearningLambda = 0.001;

const Attempts::State& entries(const TrainingRun::State& state) {
  return *static_cast<const Attempts::State*>(state.get());
}

}  // namespace

JobRun::JobRun(Job& job) : job_(job), attempts_(job) {
  bottleneck_.emplace(attempts_.begin(
      job.wanted_bytes > 0 ? sized_to(job, job.wanted_bytes) : job.options.bottleneck,
      &beginning_));
}

TrainingRun::State JobRun::state() const {
  return std::make_shared<const Attempts::State>(bottleneck_->training_state());
}

void JobRun::restore(const State& state) { bottleneck_->restore_training_state(entries(state)); }

std::optional<TrainingRun::Resumed> JobRun::resumed() {
  if (!attempts_.at.search) return {};
  Resumed resumed{lambda_search_state_of(*attempts_.at.search), {}, attempts_.at.kept_state};
  const LambdaSearchState& state = resumed.search;
  if (job_.judge)
    job_.judge->set_state({state.baseline, state.noise, state.baseline_seen, state.relearned});
  job_.above_chance->set_best(state.best_above_chance);
  if (attempts_.at.best_file) resumed.best_file = *attempts_.at.best_file;
  resumed_ = true;
  return resumed;
}

void JobRun::save(LambdaSearchState search, const std::vector<std::byte>& best_file,
                  const State& base) {
  const Judge::State judge = job_.judge ? job_.judge->state() : Judge::State();
  search.baseline = judge.baseline;
  search.noise = judge.noise;
  search.baseline_seen = judge.reference_seen;
  search.relearned = judge.relearned;
  search.best_above_chance = job_.above_chance->best();
  attempts_.at.search = std::make_shared<const std::vector<std::byte>>(to_cbor(search));
  attempts_.at.best_file =
      best_file.empty() ? nullptr : std::make_shared<const std::vector<std::byte>>(best_file);
  attempts_.at.kept_state = std::static_pointer_cast<const Attempts::State>(base);
  ++attempts_.at.attempt;
  attempts_.at.phase = "train";
  attempts_.at.done = 0;
}

/// A run that is resumed keeps its moments.
void JobRun::begin_at(const RateOptions& rate) {
  const Attempts::State state = resumed_ ? bottleneck_->training_state() : Attempts::State();
  bottleneck_->restart(rate);
  if (resumed_) bottleneck_->restore_training_state(state);
  resumed_ = false;
}

LambdaPoint JobRun::attempt(double lambda, double from, bool baseline) {
  TrainOptions options = job_.options.train;
  options.rate.lambda = lambda;
  options.rate.first_lambda = from;
  if (from > 0) options.epochs = later_epochs(options.epochs);
  begin_at(attempts_.rate(options));
  attempts_.train(*bottleneck_, options);
  attempts_.settle(*bottleneck_, 0);
  LambdaPoint point{.lambda = lambda, .bytes = bottleneck_->bytes(), .from = from};
  if (job_.wanted_bytes > 0) point.collapsed = kept() < kLeastKept;
  if (baseline) job_.judge->take_reference(job_.model);
  if (job_.judge) point.drop = job_.judge->drop(job_.model);
  point.bytes = static_cast<std::int64_t>(of_first_rank(static_cast<double>(point.bytes)));
  point.drop = of_first_rank(point.drop);
  return point;
}

/// Of the model as it is.
double JobRun::kept() { return of_first_rank(job_.above_chance->kept(job_.model)); }

Candidate JobRun::candidate() {
  const double loss = of_first_rank(job_.above_chance->loss(job_.model));
  return {BottleneckInternals::encode(*bottleneck_), 0, kept(), loss};
}

Candidate JobRun::cut_to(std::int64_t bytes) {
  RateOptions rate = attempts_.rate(job_.options.train);
  rate.max_bytes = bytes;
  bottleneck_->restart(rate);
  bottleneck_->finish();
  return candidate();
}

bool JobRun::may_remember(double allowed) {
  return of_first_rank(job_.judge->may_remember(job_.model, allowed)) > 0;
}

/// Trains from the weights of the last attempt, which are too coarse to remember single samples, as
/// the given model seems to have been trained, at next to no lambda. No step of it is saved: a run
/// that is resumed meanwhile trains it anew.
void JobRun::train_without_leakage() {
  TrainOptions options = job_.options.train;
  options.rate.lambda *= kRelearningLambda;
  options.epochs = later_epochs(options.epochs);
  options.shift = std::min(options.shift, job_.own_augmentation.shift);
  options.mirror = options.mirror && job_.own_augmentation.mirror;
  // Made of the model as it is: zeros of the attempt are weights like others again.
  BottleneckOptions whole = job_.options.bottleneck;
  whole.rate = attempts_.rate(options);
  bottleneck_->restore_training_state(
      GenomicBottleneck(job_.model.tensors(), job_.registry, whole, job_.options.group)
          .training_state());
  bottleneck_->restart(whole.rate);
  train(job_.model, *bottleneck_, *job_.train, options, job_.teacher, job_.progress,
        {.after_step = [&](std::int64_t) { job_.checkpoints.after_step_aside(); }});
}

double JobRun::leakage() {
  const RunPosition position = attempts_.at;
  const std::vector<StateEntry> state = bottleneck_->training_state();
  try {
    train_without_leakage();
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    bottleneck_->restore_training_state(state);
    job_.checkpoints.after_step(position, *bottleneck_);  // saves, and throws
  }
  bottleneck_->finish();
  const double before = job_.judge->state().baseline;
  job_.judge->take_relearned(job_.model);
  const double leakage = of_first_rank(before - job_.judge->state().baseline);
  bottleneck_->restore_training_state(state);
  return leakage;
}

/// Whether the minutes that were given leave time.
bool JobRun::time_for(std::chrono::steady_clock::duration last) const {
  if (!job_.options.minutes) return true;
  const std::chrono::duration<double> end = std::chrono::steady_clock::now() - job_.start + last;
  return of_first_rank(end.count() <= 60 * *job_.options.minutes) > 0;
}

void JobRun::tell(const std::string& line) const {
  if (job_.options.tell) job_.options.tell(line);
}

void JobRun::show(const LambdaPoint& point, std::int64_t done, bool baseline) const {
  if (!job_.progress) return;
  Progress progress{"attempt", done, job_.attempts, std::numeric_limits<double>::quiet_NaN()};
  progress.measured = {{"lambda", point.lambda}, {"bytes", static_cast<double>(point.bytes)}};
  if (job_.judge && !baseline) progress.measured["held_out_drop"] = point.drop;
  job_.progress(progress);
}

std::string JobRun::drop_text(double drop) const {
  return gbcompress::drop_text(job_.data->metric, drop);
}

}  // namespace gbcompress
