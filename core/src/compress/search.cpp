#include "compress/search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "bottleneck/internals.h"
#include "bottleneck/planner.h"
#include "compress/above_chance.h"
#include "compress/attempt.h"
#include "compress/job_run.h"
#include "compress/methods/rate_search.h"
#include "compress/planned_size.h"
#include "search/bracket_search.h"
#include "search/drop_search.h"

namespace gbcompress {
namespace {

/// Calibrated files of a size whose model is collapsed: the next size is so many times as large,
/// and the bracket is cut (on a logarithmic scale) so many times.
constexpr double kLarger = 2;
constexpr int kSizeCuts = 2;
constexpr int kMostSizes = 64;

Outcome one_attempt(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  outcome.bottleneck.emplace(
      attempts.run(job.wanted_bytes > 0 ? sized_to(job, job.wanted_bytes) : job.options.bottleneck,
                   job.wanted_bytes));
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.bytes_per_step = attempts.bytes_per_step;
  if (job.trained && job.priced()) outcome.price = job.options.train.rate.lambda;
  if (job.above_chance)
    outcome.kept = of_rank_0(job.options.group, job.above_chance->kept(job.model));
  return outcome;
}

bool looks_for_leakage(const Job& job) {
  const CompressOptions& options = job.options;
  // Looked at if all are integers and one training is like another.
  return options.target.max_drop && job.residual() && !any_prior(options.bottleneck) &&
         options.train.strategy.name == StrategyChoice().name &&
         std::none_of(options.bottleneck.layers.begin(), options.bottleneck.layers.end(),
                      [](const LayerRule& rule) { return rule.mode == WeightMode::kGenerated; });
}

Outcome rate_search(Job& job) {
  JobRun run(job);
  RateSearchResult found = RateSearch(run, {.bytes = job.wanted_bytes,
                                            .drop = job.options.target.max_drop.value_or(0),
                                            .judged = job.judge.has_value(),
                                            .looks_for_leakage = looks_for_leakage(job),
                                            .first_lambda = job.options.train.rate.lambda,
                                            .attempts = job.attempts})
                               .result();
  Outcome outcome;
  outcome.file = std::move(found.best.file);
  outcome.target_met = found.target_met;
  outcome.note = std::move(found.note);
  outcome.taken = std::move(found.taken);
  outcome.kept = found.best.kept;
  outcome.attempts = static_cast<std::int64_t>(found.points.size());
  outcome.price = found.best.lambda;
  outcome.bottleneck.emplace(run.take());
  outcome.bytes_per_step = run.bytes_per_step();
  return outcome;
}

/// Values that a new attempt starts from.
ModelSnapshot snapshot(const Job& job) {
  return job.originals ? *job.originals : ModelSnapshot(job.model);
}

}  // namespace

Outcome calibrated_size(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  const ModelSnapshot originals = snapshot(job);
  const auto run_at = [&](std::int64_t bytes) {
    originals.restore(job.model);
    outcome.bottleneck.reset();
    outcome.bottleneck.emplace(attempts.run(job.options.bottleneck, bytes));
    outcome.kept = of_rank_0(job.options.group, job.above_chance->kept(job.model));
    return outcome.kept >= AboveChance::kLeastKept;
  };
  BracketSearch search({.scale = Scale::kLog,
                        .cuts = kSizeCuts,
                        .stride = kLarger,
                        .strides = kMostSizes,
                        .limit = static_cast<double>(job.input_bytes)},
                       {.first = static_cast<double>(job.wanted_bytes)});
  while (const auto bytes = search.next())
    search.tried(*bytes, run_at(static_cast<std::int64_t>(*bytes)));
  if (search.holds() && search.state().last != search.holds())
    run_at(static_cast<std::int64_t>(*search.holds()));
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.target_met = outcome.kept >= AboveChance::kLeastKept;
  if (!outcome.target_met)
    outcome.note = all_collapsed(job.wanted_bytes, outcome.file.size());
  else if (search.fails())
    outcome.note = out_of_reach(job.wanted_bytes, static_cast<std::int64_t>(outcome.file.size()));
  return outcome;
}

namespace {

/// Sizes one after another, each from the model as it is: where another size is another plan of
/// g-nets, or an attempt trains nothing and is cheap.
Outcome search_sizes(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  const ModelSnapshot originals = snapshot(job);
  const auto run_at = [&](double ratio) {
    originals.restore(job.model);
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(job.input_bytes) / ratio);
    outcome.bottleneck.reset();
    outcome.bottleneck.emplace(attempts.run(sized_to(job, bytes), bytes));
  };
  const bool cheap = job.residual() && !job.trained;
  const auto& resumed = job.checkpoints.resumed();
  const std::int64_t first = cheap || !resumed ? 0 : resumed->attempt;
  BracketSearch search = drop_search(cheap);
  double drop = 0;
  for (; const auto ratio = search.next(); ++attempts.at.attempt) {
    const bool known = attempts.at.attempt < first;  // it missed, or it would be the last
    if (!known) {
      run_at(*ratio);
      drop = of_rank_0(job.options.group, job.judge->drop(job.model));
    }
    search.tried(*ratio, !known && drop <= *job.options.target.max_drop);
  }
  outcome.attempts = attempts.at.attempt;
  outcome.target_met = search.holds().has_value();
  if (outcome.target_met && search.state().last != search.holds()) run_at(*search.holds());
  if (!outcome.target_met)
    outcome.note = formatted(
        "the largest quality drop allowed is %g; at the largest size tried it is %.3g on the "
        "held-out split; use more epochs",
        *job.options.target.max_drop, drop);
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.bytes_per_step = attempts.bytes_per_step;
  return outcome;
}

}  // namespace

BottleneckOptions sized_to(const Job& job, std::int64_t bytes) {
  const CompressOptions& o = job.options;
  if (job.residual()) return o.bottleneck;
  return options_for_size(job.model.tensors(), job.registry, o.bottleneck, bytes).options;
}

Outcome attempt_all(Job& job) {
  if (job.searches_price()) return rate_search(job);
  if (job.options.target.max_drop) return search_sizes(job);
  if (job.wanted_bytes > 0 && job.residual() && !job.trained && job.allocation)
    return calibrated_size(job);
  return one_attempt(job);
}

}  // namespace gbcompress
