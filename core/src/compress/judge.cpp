#include "compress/judge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace gbcompress {
namespace {

/// Of a mean of n differences of `a` and `b`; at least what one sample more or less makes.
double standard_error(Metric metric, const at::Tensor& a, const at::Tensor& b) {
  const auto n = static_cast<double>(a.numel());
  const double one = metric == Metric::kAccuracy      ? 100 / n
                     : metric == Metric::kNatsPerChar ? 1e-3
                                                      : 1e-6;
  if (a.numel() < 2) return one;
  return std::max(one, (a - b).std().item<double>() / std::sqrt(n));
}

}  // namespace

Judge::Judge(Model& model, const HeldBack& split, Metric metric, bool fresh, std::uint64_t seed)
    : judge_(split.judge),
      seen_(some_of(split.train, split.judge.size(), seed)),
      metric_(metric),
      fresh_(fresh),
      original_(evaluate_samples(model, judge_, metric)),
      original_seen_(quality(model, seen_)),
      baseline_(original_.mean().item<double>()),
      noise_(standard_error(metric, original_, original_)) {}

double Judge::quality(Model& model, const Dataset& data) const {
  return evaluate(model, data, metric_);
}

void Judge::take_reference(Model& model) {
  const at::Tensor reference = evaluate_samples(model, judge_, metric_);
  const double mean = reference.mean().item<double>();
  if (fresh_) {
    baseline_ = mean;
    noise_ = standard_error(metric_, reference, at::full_like(reference, mean));
    return;
  }
  noise_ = standard_error(metric_, original_, reference);
  const double harm = std::max(0.0, metric_drop(metric_, original_seen_, quality(model, seen_)));
  const double remembered = std::max(0.0, metric_drop(metric_, baseline_, mean) - harm);
  baseline_ += metric_ == Metric::kAccuracy ? -remembered : remembered;
}

double Judge::drop(Model& model) const {
  return metric_drop(metric_, baseline_, quality(model, judge_));
}

}  // namespace gbcompress
