#include "train/calibrate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Outputs of all samples together, so that long texts do not take minutes.
constexpr std::int64_t kMostOutputs = 16'384, kFewestSamples = 64;
/// One gradient is of so many samples; their labels are drawn independently, so that cross terms
/// vanish on average.
constexpr std::int64_t kGradientBatch = 8;
constexpr double kLeastImportance = 1e-6;

/// Labels [n] drawn from the rows of `logits` [n, classes].
at::Tensor drawn_labels(const at::Tensor& logits, const RandomStream& random, std::int64_t first) {
  const at::Tensor below = logits.detach().to(at::kDouble).softmax(1).cumsum(1);
  at::Tensor draws = at::empty({logits.size(0), 1}, at::kDouble);
  for (std::int64_t i = 0; i < logits.size(0); ++i)
    draws.data_ptr<double>()[i] = random.bits(static_cast<std::uint64_t>(first + i)) / 4294967296.0;
  return below.le(draws).sum(1).clamp_max(logits.size(1) - 1);
}

}  // namespace

bool is_matrix(const NamedParameter& tensor) {
  return tensor.trainable && tensor.tied_to.empty() && is_real(tensor.info.dtype) &&
         tensor.info.shape.size() >= 2 && tensor.info.elements() > 0;
}

Dataset calibration_samples(const Dataset& data, std::int64_t count, std::uint64_t seed) {
  if (data.size() == 0) throw Error(Errc::kUsage, "the training split is empty");
  const std::int64_t outputs = std::max<std::int64_t>(1, data.range(0, 1).targets.numel());
  const std::int64_t most = std::max(kFewestSamples, kMostOutputs / outputs);
  std::vector<std::int64_t> order = RandomStream(seed, "calibrate").permutation(data.size());
  order.resize(static_cast<std::size_t>(std::min({count, most, data.size()})));
  const Batch batch = data.gather(order);
  return Dataset(batch.inputs, batch.targets);
}

std::vector<double> tensor_importance(Model& model, const Dataset& samples, std::uint64_t seed) {
  const at::AutoGradMode with_grad(true);
  model.train(false);
  std::vector<NamedParameter>& tensors = model.tensors();
  const auto weighed = [](const NamedParameter& p) {
    return p.trainable && p.tied_to.empty() && p.tensor.requires_grad() && p.info.elements() > 0;
  };
  std::vector<double> importance(tensors.size(), 0);
  double outputs = 0;
  for (std::int64_t first = 0; first < samples.size(); first += kGradientBatch) {
    throw_if_interrupted();
    for (NamedParameter& p : tensors) p.tensor.mutable_grad() = at::Tensor();
    const Batch batch =
        samples.range(first, std::min<std::int64_t>(kGradientBatch, samples.size() - first));
    const at::Tensor logits = model.forward(batch.inputs).flatten(0, -2).to(at::kFloat);
    const RandomStream random(seed, "calibrate", "labels", static_cast<std::uint64_t>(first));
    at::cross_entropy_loss(logits, drawn_labels(logits, random, 0), {}, at::Reduction::Sum)
        .backward();
    outputs += static_cast<double>(logits.size(0));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (weighed(tensors[i]) && tensors[i].tensor.grad().defined())
        importance[i] += tensors[i].tensor.grad().to(at::kDouble).square().mean().item<double>();
  }
  for (NamedParameter& p : tensors) p.tensor.mutable_grad() = at::Tensor();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    importance[i] /= std::max(outputs, 1.0);
    if (!std::isfinite(importance[i]))
      throw Error(Errc::kNonFinite, "the gradient by " + tensors[i].info.name +
                                        " is not finite on the training data; use --set "
                                        "rate.calibration=0");
  }
  return importance;
}

std::vector<double> step_factors(const std::vector<NamedParameter>& tensors,
                                 const std::vector<double>& importance, double temper) {
  const double largest = *std::max_element(importance.begin(), importance.end());
  std::vector<double> factors(tensors.size(), 1);
  if (!(largest > 0)) return factors;
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    factors[i] = std::pow(std::max(importance[i], kLeastImportance * largest), -temper / 2);
    if (!is_matrix(tensors[i])) continue;
    const auto n = static_cast<double>(tensors[i].info.elements());
    sum += n * std::log(factors[i]);
    weights += n;
  }
  const double mean = weights > 0 ? std::exp(sum / weights) : 1;
  for (double& factor : factors) factor /= mean;
  return factors;
}

}  // namespace gbcompress
