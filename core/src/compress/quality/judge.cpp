#include "compress/quality/judge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gbcompress {
namespace {

/// A loss that is asked can be told from chance where it is so many standard errors.
constexpr double kTold = 1.5;

}  // namespace

double binomial_error(double percent, std::int64_t samples) {
  const double n = static_cast<double>(samples), p = std::clamp(percent / 100, 0.0, 1.0);
  return 100 * std::max(1 / n, std::sqrt(p * (1 - p) / n));
}

double standard_error(Metric metric, const at::Tensor& a, const at::Tensor& b) {
  const auto n = static_cast<double>(a.numel());
  const double one = metric == Metric::kAccuracy      ? 100 / n
                     : metric == Metric::kNatsPerChar ? 1e-3
                                                      : 1e-6;
  if (a.numel() < 2) return one;
  return std::max(one, (a - b).std().item<double>() / std::sqrt(n));
}

Judge::Judge(Model& model, const HeldBack& split, Metric metric, bool fresh, std::uint64_t seed)
    : judge_(split.judge),
      seen_(some_of(split.train, split.judge.size(), seed)),
      metric_(metric),
      fresh_(fresh),
      original_(evaluate_samples(model, judge_, metric)),
      original_seen_(quality(model, seen_)) {
  state_.baseline = original_.mean().item<double>();
  state_.noise = standard_error(metric, original_, original_);
}

double Judge::quality(Model& model, const Dataset& data) const {
  return evaluate(model, data, metric_);
}

void Judge::take_reference(Model& model) {
  const at::Tensor reference = evaluate_samples(model, judge_, metric_);
  const double mean = reference.mean().item<double>();
  if (fresh_) {
    state_.baseline = mean;
    state_.noise = standard_error(metric_, reference, at::full_like(reference, mean));
    return;
  }
  state_.noise = standard_error(metric_, original_, reference);
  state_.reference_seen = quality(model, seen_);
  const double harm = std::max(0.0, metric_drop(metric_, original_seen_, state_.reference_seen));
  const double remembered = std::max(0.0, metric_drop(metric_, state_.baseline, mean) - harm);
  state_.baseline += metric_ == Metric::kAccuracy ? -remembered : remembered;
}

bool Judge::may_remember(Model& model, double asked) const {
  if (fresh_ || state_.relearned || metric_ != Metric::kAccuracy) return false;
  const at::Tensor scores = evaluate_samples(model, judge_, metric_);
  return original_seen_ >= state_.reference_seen - state_.noise &&
         asked >= kTold * standard_error(metric_, original_, scores);
}

void Judge::take_relearned(Model& model) {
  const at::Tensor relearned = evaluate_samples(model, judge_, metric_);
  const double harm = std::max(0.0, original_seen_ - quality(model, seen_));
  const double least = original_.mean().item<double>() - kMostMemory;
  const double baseline = std::max(relearned.mean().item<double>() + harm, least);
  state_.relearned = true;
  if (baseline >= state_.baseline) return;
  state_.baseline = baseline;
  state_.noise = standard_error(metric_, original_, relearned);
}

double Judge::drop(Model& model) const {
  return metric_drop(metric_, state_.baseline, quality(model, judge_));
}

std::string in_units(Metric metric, double value) {
  char text[80];
  std::snprintf(text, sizeof text, "%.3g%s", value,
                metric == Metric::kAccuracy      ? " points"
                : metric == Metric::kNatsPerChar ? " nats per character"
                                                 : "");
  return text;
}

std::string drop_text(Metric metric, double drop) {
  return std::string("quality ") + (drop < 0 ? "gain " : "drop ") +
         in_units(metric, std::fabs(drop));
}

}  // namespace gbcompress
