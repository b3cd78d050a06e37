#include <ATen/ATen.h>

#include <limits>

#include "base/interrupt.h"
#include "gbcompress/error.h"
#include "gbcompress/train.h"

namespace gbcompress {
namespace {

/// Inputs a forward pass, so that memory stays bounded: about 64 Ki numbers going in.
std::int64_t samples_a_pass(const Dataset& data) {
  const Batch one = data.range(0, 1);
  return std::max<std::int64_t>(1, std::min<std::int64_t>(500, 65'536 * 8 / one.inputs.numel()));
}

}  // namespace

at::Tensor evaluate_samples(Model& model, const Dataset& data, Metric metric,
                            const ProgressSink& progress) {
  if (!model.has_forward())
    throw Error(Errc::kUsage,
                "this model is a bare state dict without a forward pass and cannot be evaluated; "
                "name its architecture with --arch");
  if (data.size() == 0) throw Error(Errc::kUsage, "the held-out split is empty");
  const at::NoGradGuard no_grad;
  model.train(false);
  const std::int64_t pass = samples_a_pass(data);
  std::vector<at::Tensor> scores;
  for (std::int64_t first = 0; first < data.size(); first += pass) {
    throw_if_interrupted();
    const Batch batch = data.range(first, std::min(pass, data.size() - first));
    const at::Tensor logits = model.forward(batch.inputs).flatten(0, -2).to(at::kFloat);
    const at::Tensor targets = batch.targets.flatten();
    if (logits.size(0) != targets.size(0))
      throw Error(Errc::kShapeMismatch, "the model gives " + std::to_string(logits.size(0)) +
                                            " outputs for " + std::to_string(targets.size(0)) +
                                            " targets; this data does not fit it");
    if (targets.max().item<std::int64_t>() >= logits.size(1))
      throw Error(Errc::kShapeMismatch, "the model tells " + std::to_string(logits.size(1)) +
                                            " classes apart, the data has more");
    const at::Tensor each =
        metric == Metric::kAccuracy
            ? logits.argmax(1).eq(targets).to(at::kDouble) * 100
            : at::cross_entropy_loss(logits, targets, {}, at::Reduction::None).to(at::kDouble);
    scores.push_back(each.view({batch.targets.size(0), -1}).mean(1));
    if (progress)
      progress({"evaluate", std::min(first + pass, data.size()), data.size(),
                std::numeric_limits<double>::quiet_NaN()});
  }
  return at::cat(scores);
}

double evaluate(Model& model, const Dataset& data, Metric metric, const ProgressSink& progress) {
  return evaluate_samples(model, data, metric, progress).mean().item<double>();
}

std::string_view metric_name(Metric metric) noexcept {
  return metric == Metric::kAccuracy ? "accuracy_percent" : "nats_per_char";
}

double metric_drop(Metric metric, double before, double after) noexcept {
  return metric == Metric::kAccuracy ? before - after : after - before;
}

}  // namespace gbcompress
