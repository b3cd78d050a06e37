#include "compress/search.h"

#include <ATen/ATen.h>

#include <cmath>

#include "bottleneck/internals.h"
#include "compress/above_chance.h"
#include "compress/attempt.h"
#include "compress/drop_search.h"
#include "compress/planned_size.h"
#include "compress/price_attempts.h"

namespace gbcompress {
namespace {

/// Untrained files of a size that leaves no model alive: the next size is so many times as large,
/// and what lies between the last two is halved (on a logarithmic scale) so many times.
constexpr double kLarger = 2;
constexpr int kHalved = 2;

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

/// Values that a new attempt starts from.
std::vector<at::Tensor> snapshot(const Job& job) {
  if (job.allocation) return job.allocation->values();
  std::vector<at::Tensor> values;
  for (const NamedParameter& p : job.model.tensors()) values.push_back(p.tensor.detach().clone());
  return values;
}
void restore(Model& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) model.tensors()[i].tensor.copy_(values[i]);
}

/// Untrained integers of the wanted size, or the smallest file found that leaves the model alive.
Outcome calibrated_size(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  const std::vector<at::Tensor> originals = snapshot(job);
  const auto run_at = [&](std::int64_t bytes) {
    restore(job.model, originals);
    outcome.bottleneck.reset();
    outcome.bottleneck.emplace(attempts.run(job.options.bottleneck, bytes));
    outcome.kept = of_rank_0(job.options.group, job.above_chance->kept(job.model));
    return outcome.kept >= AboveChance::kLeastKept;
  };
  double bytes = static_cast<double>(job.wanted_bytes), dead = 0;
  while (!run_at(static_cast<std::int64_t>(bytes)) &&
         bytes < static_cast<double>(job.input_bytes)) {
    dead = bytes;
    bytes *= kLarger;
  }
  bool at_best = true;
  for (int i = 0; i < kHalved && dead > 0; ++i) {
    const double middle = std::sqrt(dead * bytes);
    at_best = run_at(static_cast<std::int64_t>(middle));
    (at_best ? bytes : dead) = middle;
  }
  if (!at_best) run_at(static_cast<std::int64_t>(bytes));
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.target_met = outcome.kept >= AboveChance::kLeastKept;
  if (!outcome.target_met)
    outcome.note = nothing_alive(job.wanted_bytes, outcome.file.size());
  else if (dead > 0)
    outcome.note = out_of_reach(job.wanted_bytes, static_cast<std::int64_t>(outcome.file.size()));
  return outcome;
}

/// Sizes one after another, each from the model as it is: where another size is another plan of
/// g-nets, or an attempt trains nothing and is cheap.
Outcome search_sizes(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  const std::vector<at::Tensor> originals = snapshot(job);
  const auto run_at = [&](double ratio) {
    restore(job.model, originals);
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(job.input_bytes) / ratio);
    outcome.bottleneck.reset();
    outcome.bottleneck.emplace(attempts.run(sized_to(job, bytes), bytes));
  };
  const bool cheap = job.residual() && !job.trained;
  const auto& resumed = job.checkpoints.resumed();
  const std::int64_t first = cheap || !resumed ? 0 : resumed->attempt;
  DropSearch search(cheap);
  double drop = 0, ratio = 0;
  for (bool more = true; more; ++attempts.at.attempt) {
    ratio = search.ratio();
    const bool known = attempts.at.attempt < first;  // it missed, or it would be the last
    if (!known) {
      run_at(ratio);
      drop = of_rank_0(job.options.group, job.judge->drop(job.model));
    }
    more = search.tried(!known && drop <= *job.options.target.max_drop);
  }
  outcome.attempts = attempts.at.attempt;
  outcome.target_met = search.best() > 0;
  if (outcome.target_met && search.best() != ratio) run_at(search.best());
  if (!outcome.target_met)
    outcome.note = formatted(
        "a drop of at most %g was asked; at the largest size tried it is %.3g on held-back "
        "training data; try more epochs",
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

std::string out_of_reach(std::int64_t wanted, std::int64_t smallest) {
  return formatted(
      "at most %lld bytes were asked, the file has %lld; no smaller one was found whose model "
      "keeps "
      "half of what the original knows above chance",
      static_cast<long long>(wanted), static_cast<long long>(smallest));
}

Outcome attempt_all(Job& job) {
  if (job.searches_price()) return price_attempts(job);
  if (job.options.target.max_drop) return search_sizes(job);
  if (job.wanted_bytes > 0 && job.residual() && !job.trained && job.allocation)
    return calibrated_size(job);
  return one_attempt(job);
}

}  // namespace gbcompress
