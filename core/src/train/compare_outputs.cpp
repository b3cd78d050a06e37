#include "gbcompress/train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "gbcompress/error.h"
#include "train/measure.h"

namespace gbcompress {

OutputComparison compare_outputs(Model& a, Model& b, const Dataset& data, Metric metric,
                                 const ProgressSink& progress) {
  check_measurable(a, data);
  check_measurable(b, data);
  const at::NoGradGuard no_grad;
  a.train(false);
  b.train(false);
  OutputComparison sum;
  const std::int64_t pass = samples_a_pass(data);
  const double unit = unit_of(data);
  for (std::int64_t first = 0; first < data.size(); first += pass) {
    throw_if_interrupted();
    const Batch batch = data.range(first, std::min(pass, data.size() - first));
    const at::Tensor from_a = outputs_of(a, batch), from_b = outputs_of(b, batch);
    if (from_a.sizes() != from_b.sizes())
      throw Error(Errc::kShapeMismatch, "the first model has " + std::to_string(from_a.size(1)) +
                                            " classes apart, the second " +
                                            std::to_string(from_b.size(1)));
    sum.metric_a += scores_of(from_a, batch, metric, unit).sum().item<double>();
    sum.metric_b += scores_of(from_b, batch, metric, unit).sum().item<double>();
    sum.agreement += from_a.argmax(1).eq(from_b.argmax(1)).sum().item<double>();
    const at::Tensor log_a = at::log_softmax(from_a.to(at::kDouble), 1);
    const at::Tensor log_b = at::log_softmax(from_b.to(at::kDouble), 1);
    sum.divergence += (log_a.exp() * (log_a - log_b)).sum().item<double>();
    sum.largest_difference =
        std::max(sum.largest_difference, (from_a - from_b).abs().max().item<double>());
    sum.samples += batch.inputs.size(0);
    sum.positions += from_a.size(0);
    if (progress)
      progress({"compare", sum.samples, data.size(), std::numeric_limits<double>::quiet_NaN()});
  }
  const auto positions = static_cast<double>(sum.positions);
  sum.metric_a /= positions;
  sum.metric_b /= positions;
  sum.agreement *= 100 / positions;
  sum.divergence /= positions;
  return sum;
}

}  // namespace gbcompress
