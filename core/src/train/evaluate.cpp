#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "gbcompress/error.h"
#include "gbcompress/train.h"
#include "model/forward_pass.h"
#include "train/measure.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kTop = 5;

}  // namespace

void check_measurable(const Model& model, const Dataset& data) {
  require_forward(model, "so it cannot be evaluated");
  if (data.size() == 0) throw Error(Errc::kUsage, "the held-out split is empty");
}

std::int64_t samples_a_pass(const Dataset& data) {
  const Batch one = data.range(0, 1);
  return std::max<std::int64_t>(1, std::min<std::int64_t>(500, 65'536 * 8 / one.inputs.numel()));
}

at::Tensor outputs_of(Model& model, const Batch& batch) {
  const at::Tensor logits = model.forward(batch.inputs).flatten(0, -2).to(at::kFloat);
  const bool classes = !batch.targets.is_floating_point();
  const at::Tensor targets = classes ? batch.targets.flatten() : batch.targets.flatten(0, -2);
  if (!classes && targets.size(1) != logits.size(1))
    throw Error(Errc::kShapeMismatch, "the model gives " + std::to_string(logits.size(1)) +
                                          " outputs, and the original gives " +
                                          std::to_string(targets.size(1)));
  if (logits.size(0) != targets.size(0))
    throw Error(Errc::kShapeMismatch, "the model gives " + std::to_string(logits.size(0)) +
                                          " outputs for " + std::to_string(targets.size(0)) +
                                          " targets; this data does not fit it");
  if (classes && targets.max().item<std::int64_t>() >= logits.size(1))
    throw Error(Errc::kShapeMismatch, "the model has " + std::to_string(logits.size(1)) +
                                          " classes apart, the data has more");
  return logits;
}

double unit_of(const Dataset& data) {
  if (data.has_classes()) return 1;
  const at::Tensor targets = data.everything().targets.flatten(0, -2);
  const double squares = targets.to(at::kDouble).square().sum(1).mean().item<double>();
  return squares > 0 ? squares : 1;
}

at::Tensor scores_of(const at::Tensor& outputs, const Batch& batch, Metric metric, double unit) {
  if (metric == Metric::kOutputError)
    return (outputs - batch.targets.flatten(0, -2)).to(at::kDouble).square().sum(1) / unit;
  const at::Tensor targets = batch.targets.flatten();
  return metric == Metric::kAccuracy
             ? outputs.argmax(1).eq(targets).to(at::kDouble) * 100
             : at::cross_entropy_loss(outputs, targets, {}, at::Reduction::None).to(at::kDouble);
}

at::Tensor in_top5(const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor best = std::get<1>(scores.topk(std::min<std::int64_t>(kTop, scores.size(1)), 1));
  return best.eq(labels.unsqueeze(1)).any(1);
}

namespace {

/// @param visit  called with the outputs of each pass and its batch
template <typename Visit>
at::Tensor scores_of_samples(Model& model, const Dataset& data, Metric metric,
                             const ProgressSink& progress, const Visit& visit) {
  check_measurable(model, data);
  const at::NoGradGuard no_grad;
  model.train(false);
  const std::int64_t pass = samples_a_pass(data);
  const double unit = unit_of(data);
  std::vector<at::Tensor> scores;
  for (std::int64_t first = 0; first < data.size(); first += pass) {
    throw_if_interrupted();
    const Batch batch = data.range(first, std::min(pass, data.size() - first));
    const at::Tensor outputs = outputs_of(model, batch);
    const at::Tensor each = scores_of(outputs, batch, metric, unit);
    visit(outputs, batch);
    scores.push_back(each.view({batch.inputs.size(0), -1}).mean(1));
    if (progress)
      progress({"evaluate", std::min(first + pass, data.size()), data.size(),
                std::numeric_limits<double>::quiet_NaN()});
  }
  return at::cat(scores);
}

}  // namespace

at::Tensor evaluate_samples(Model& model, const Dataset& data, Metric metric,
                            const ProgressSink& progress) {
  return scores_of_samples(model, data, metric, progress, [](const at::Tensor&, const Batch&) {});
}

Quality measure(Model& model, const Dataset& data, Metric metric, const ProgressSink& progress) {
  std::int64_t hits = 0, rows = 0;
  const at::Tensor scores = scores_of_samples(
      model, data, metric, progress, [&](const at::Tensor& outputs, const Batch& batch) {
        if (metric != Metric::kAccuracy || outputs.size(1) <= kTop) return;
        hits += in_top5(outputs, batch.targets.flatten()).sum().item<std::int64_t>();
        rows += outputs.size(0);
      });
  Quality quality{scores.mean().item<double>(), {}};
  if (rows > 0) quality.top5 = 100 * static_cast<double>(hits) / static_cast<double>(rows);
  return quality;
}

double evaluate(Model& model, const Dataset& data, Metric metric, const ProgressSink& progress) {
  return evaluate_samples(model, data, metric, progress).mean().item<double>();
}

}  // namespace gbcompress
