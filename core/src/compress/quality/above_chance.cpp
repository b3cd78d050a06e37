#include "compress/quality/above_chance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "compress/quality/held_out_split.h"

namespace gbcompress {
namespace {

/// Predictions that are scored, about, and the fewest samples they are taken from.
constexpr std::int64_t kPredictions = 16'384, kFewest = 64, kMost = 1000;

std::int64_t scored(const Dataset& data) {
  return std::clamp(kPredictions / data.predictions(), kFewest, kMost);
}

/// Quality of the best constant answer.
double chance(const Dataset& data, Metric metric) {
  if (metric == Metric::kOutputError) {
    const at::Tensor outputs = data.everything().targets.flatten(0, -2).to(at::kDouble);
    const double squares = outputs.square().sum().item<double>();
    return squares > 0 ? (outputs - outputs.mean(0)).square().sum().item<double>() / squares : 0;
  }
  const at::Tensor labels = data.everything().targets.flatten();
  const at::Tensor p = at::bincount(labels).to(at::kDouble) / static_cast<double>(labels.numel());
  if (metric == Metric::kAccuracy) return 100 * p.max().item<double>();
  return -at::xlogy(p, p).sum().item<double>();
}

}  // namespace

AboveChance::AboveChance(Model& model, const Dataset& samples, Metric metric, std::uint64_t seed)
    : samples_(some_of(samples, scored(samples), seed)),
      metric_(metric),
      chance_(chance(samples_, metric)) {
  best_ = above(model);
}

double AboveChance::above(Model& model) const {
  return -metric_drop(metric_, chance_, evaluate(model, samples_, metric_));
}

double AboveChance::kept(Model& model) {
  const double now = above(model);
  best_ = std::max(best_, now);
  return best_ > 0 ? now / best_ : 1;
}

double AboveChance::loss(Model& model) const {
  return evaluate(model, samples_,
                  samples_.has_classes() ? Metric::kNatsPerChar : Metric::kOutputError);
}

std::string AboveChance::describe(double kept) {
  char text[100];
  std::snprintf(text, sizeof text, "it keeps %.0f %% of the original's quality above chance",
                100 * std::max(kept, 0.0));
  return text;
}

}  // namespace gbcompress
