#include "gbcompress/train.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/interrupt.h"
#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {

std::string_view loss_name(Loss loss) noexcept {
  switch (loss) {
    case Loss::kTask: return "task";
    case Loss::kDistill: return "distill";
    case Loss::kWeights: return "weights";
  }
  return "task";
}

std::optional<Loss> parse_loss(std::string_view name) noexcept {
  for (Loss loss : {Loss::kTask, Loss::kDistill, Loss::kWeights})
    if (loss_name(loss) == name) return loss;
  return std::nullopt;
}

double fit_weights(GenomicBottleneck& bottleneck, std::int64_t steps, Schedule schedule,
                   const ProgressSink& progress) {
  const at::NoGradGuard no_grad;
  struct Fit {
    at::Tensor weights, original;
    double variance;
  };
  std::vector<Fit> fits;
  std::int64_t total = 0;
  for (const auto& layer : bottleneck.layers()) {
    const at::Tensor original = layer.original.to(at::kFloat);
    const double variance =
        original.numel() > 1 ? original.var().item<double>() : original.square().item<double>();
    fits.push_back({layer.weights, original, std::max(variance, 1e-20)});
    total += original.numel();
  }
  if (total == 0) return 0;
  const auto error = [&](bool with_gradient) {
    double sum = 0;
    for (Fit& fit : fits) {
      const at::Tensor difference = fit.weights.to(at::kFloat) - fit.original;
      sum += difference.square().sum().item<double>() / fit.variance;
      if (with_gradient)
        fit.weights.mutable_grad() =
            difference.mul_(2 / (fit.variance * static_cast<double>(total)))
                .to(fit.weights.scalar_type());
    }
    return sum / static_cast<double>(total);
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    throw_if_interrupted();
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const double loss = error(/*with_gradient=*/true);
    bottleneck.backward();
    bottleneck.step(schedule_factor(schedule, step, steps));
    if (progress) progress({"fit", step + 1, steps, loss});
  }
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  return error(/*with_gradient=*/false);
}

namespace {

/// Mean over all rows of cross-entropy; labels or, with a teacher, its distribution.
at::Tensor loss_of(const at::Tensor& output, const at::Tensor& targets,
                   const at::Tensor& teacher_output) {
  const at::Tensor logits = output.flatten(0, -2);
  if (teacher_output.defined())
    return at::cross_entropy_loss(logits, teacher_output.flatten(0, -2).softmax(-1));
  return at::cross_entropy_loss(logits, targets.flatten());
}

}  // namespace

void train(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
           const TrainOptions& options, Model* teacher, const ProgressSink& progress) {
  if (options.batch < 1 || options.epochs < 0)
    throw Error(Errc::kUsage, "train.batch must be at least 1 and train.epochs at least 0");
  if (!model.has_forward())
    throw Error(Errc::kUsage,
                "this model is a bare state dict without a forward pass; name its architecture "
                "with --arch, or use --loss weights");
  if (options.loss == Loss::kDistill && !teacher)
    throw Error(Errc::kUsage, "--loss distill needs the original model as teacher");

  const at::AutoGradMode with_grad(true);
  const std::int64_t per_epoch = (data.size() + options.batch - 1) / options.batch;
  const std::int64_t total = per_epoch * options.epochs;
  model.train(true);
  if (teacher) teacher->train(false);
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const auto order = RandomStream(options.seed, "shuffle", "", static_cast<std::uint64_t>(epoch))
                           .permutation(data.size());
    for (std::int64_t first = 0; first < data.size(); first += options.batch, ++step) {
      throw_if_interrupted();
      const auto begin = order.begin() + first;
      const Batch batch =
          data.gather({begin, begin + std::min(options.batch, data.size() - first)});
      at::Tensor target_output;
      if (options.loss == Loss::kDistill) {
        const at::NoGradGuard no_grad;
        target_output = teacher->forward(batch.inputs);
      }
      bottleneck.zero_grad();
      bottleneck.predict_weights();
      at::Tensor loss = loss_of(model.forward(batch.inputs), batch.targets, target_output);
      const double value = loss.item<double>();
      if (!std::isfinite(value))
        throw Error(Errc::kNonFinite, "the loss is not finite at step " + std::to_string(step + 1) +
                                          "; lower the learning rate (optim.lr)");
      loss.backward();
      bottleneck.backward();
      bottleneck.step(schedule_factor(options.schedule, step, total));
      if (progress) progress({"train", step + 1, total, value});
    }
  }
  model.train(false);
  bottleneck.zero_grad();
  bottleneck.predict_weights();
}

}  // namespace gbcompress
