#include "compress/quality/drop_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gbcompress {
namespace {

/// An allowed drop of so many standard errors can be told from chance.
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

DropEstimate::DropEstimate(Model& model, const HeldOutSplit& split, Metric metric, bool fresh,
                           std::uint64_t seed)
    : held_out_(split.held_out),
      seen_(some_of(split.train, split.held_out.size(), seed)),
      metric_(metric),
      fresh_(fresh),
      original_(evaluate_samples(model, held_out_, metric)),
      original_seen_(quality(model, seen_)) {
  state_.baseline = original_.mean().item<double>();
  state_.noise = standard_error(metric, original_, original_);
}

double DropEstimate::quality(Model& model, const Dataset& data) const {
  return evaluate(model, data, metric_);
}

void DropEstimate::take_baseline(Model& model) {
  const at::Tensor baseline = evaluate_samples(model, held_out_, metric_);
  const double mean = baseline.mean().item<double>();
  if (fresh_) {
    state_.baseline = mean;
    state_.noise = standard_error(metric_, baseline, at::full_like(baseline, mean));
    return;
  }
  state_.noise = standard_error(metric_, original_, baseline);
  state_.baseline_seen = quality(model, seen_);
  const double harm = std::max(0.0, metric_drop(metric_, original_seen_, state_.baseline_seen));
  const double remembered = std::max(0.0, metric_drop(metric_, state_.baseline, mean) - harm);
  state_.baseline += metric_ == Metric::kAccuracy ? -remembered : remembered;
}

bool DropEstimate::may_leak(Model& model, double allowed) const {
  if (fresh_ || state_.relearned || metric_ != Metric::kAccuracy) return false;
  const at::Tensor scores = evaluate_samples(model, held_out_, metric_);
  return original_seen_ >= state_.baseline_seen - state_.noise &&
         allowed >= kTold * standard_error(metric_, original_, scores);
}

void DropEstimate::take_relearned(Model& model) {
  const at::Tensor relearned = evaluate_samples(model, held_out_, metric_);
  const double harm = std::max(0.0, original_seen_ - quality(model, seen_));
  const double least = original_.mean().item<double>() - kMostLeakage;
  const double baseline = std::max(relearned.mean().item<double>() + harm, least);
  state_.relearned = true;
  if (baseline >= state_.baseline) return;
  state_.baseline = baseline;
  state_.noise = standard_error(metric_, original_, relearned);
}

double DropEstimate::drop(Model& model) const {
  return metric_drop(metric_, state_.baseline, quality(model, held_out_));
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
