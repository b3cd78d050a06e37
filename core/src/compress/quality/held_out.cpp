#include "compress/quality/held_out.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "compress/quality/drop_estimate.h"

namespace gbcompress {

HeldOut::HeldOut(Model& model, const Dataset& samples, Metric metric)
    : samples_(samples), metric_(metric), original_(evaluate_samples(model, samples_, metric)) {}

QualityDrop HeldOut::drop(Model& model) const {
  const at::Tensor now = evaluate_samples(model, samples_, metric_);
  const double before = original_.mean().item<double>();
  QualityDrop result;
  result.drop = metric_drop(metric_, before, now.mean().item<double>());
  result.standard_error = metric_ == Metric::kAccuracy ? binomial_error(before, original_.numel())
                                                       : standard_error(metric_, original_, now);
  return result;
}

std::string HeldOut::text(const QualityDrop& drop) const {
  return drop_text(metric_, drop.drop) + " on the held-out split, " +
         (drop.measurable() ? "above" : "within") + " one standard error (" +
         in_units(metric_, drop.standard_error) + ")";
}

}  // namespace gbcompress
