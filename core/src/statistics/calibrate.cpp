#include "statistics/calibrate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Outputs of all samples together, so that long texts do not take minutes.
constexpr std::int64_t kMostOutputs = 32'768, kFewestSamples = 64;

/// 1 and -1, drawn for each element.
at::Tensor signs_like(const at::Tensor& outputs, const RandomStream& random) {
  at::Tensor signs = at::empty(outputs.sizes(), at::kFloat);
  float* const to = signs.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < signs.numel(); ++i)
    to[i] = random.bits(static_cast<std::uint64_t>(i)) & 1 ? 1.0f : -1.0f;
  return signs.to(outputs.device());
}

/// Squares of its gradients are those of the Fisher information, in expectation: each class counts
/// by its probability. Labels that are drawn tell the same with a larger variance, as nearly all of
/// them are the model's own.
at::Tensor signed_scores(const at::Tensor& logits, const RandomStream& random) {
  const at::Tensor scores = logits.log_softmax(1);
  return (scores * (scores.detach() / 2).exp() * signs_like(scores, random)).sum();
}

/// Gradients, at least where samples are as many, and samples of one at most.
constexpr std::int64_t kGradients = 256, kMostTogether = 32;

}  // namespace

std::int64_t gradient_batch(std::int64_t samples) noexcept {
  return std::clamp<std::int64_t>(samples / kGradients, 1, kMostTogether);
}

bool is_matrix(const NamedParameter& tensor) {
  return tensor.trainable && tensor.tied_to.empty() && is_real(tensor.info.dtype) &&
         tensor.info.shape.size() >= 2 && tensor.info.elements() > 0;
}

Dataset calibration_samples(const Dataset& data, std::int64_t count, std::uint64_t seed) {
  if (data.size() == 0) throw Error(Errc::kUsage, "the training split is empty");
  const std::int64_t outputs = data.predictions();
  const std::int64_t most = std::max(kFewestSamples, kMostOutputs / outputs);
  std::vector<std::int64_t> order = RandomStream(seed, "calibrate").permutation(data.size());
  order.resize(static_cast<std::size_t>(std::min({count, most, data.size()})));
  const Batch batch = data.gather(order);
  return Dataset(batch.inputs, batch.targets);
}

void check_finite_outputs(const at::Tensor& outputs) {
  if (!at::isfinite(outputs.sum()).item<bool>())
    throw Error(Errc::kNonFinite,
                "the model's outputs for some of the training samples are not finite; leave such "
                "samples out, or repair the model");
}

double for_drawn_gradients(Model& model, const Dataset& samples, std::int64_t first,
                           std::int64_t last, std::uint64_t seed, const std::function<void()>& body,
                           const std::function<at::Tensor(const at::Tensor&)>& forward) {
  const at::AutoGradMode with_grad(true);
  model.train(false);
  const auto forget = [&] {
    for (NamedParameter& p : model.tensors()) p.tensor.mutable_grad() = at::Tensor();
  };
  double outputs = 0;
  const std::int64_t batch_size = gradient_batch(samples.size());
  for (; first < last; first += batch_size) {
    throw_if_interrupted();
    forget();
    const Batch batch = samples.range(first, std::min(batch_size, last - first));
    const at::Tensor output = forward ? forward(batch.inputs) : model.forward(batch.inputs);
    const at::Tensor logits = output.flatten(0, -2).to(at::kFloat);
    check_finite_outputs(logits);
    const RandomStream random(seed, "calibrate", "labels", static_cast<std::uint64_t>(first));
    if (samples.has_classes())
      signed_scores(logits, random).backward();
    else
      (logits * signs_like(logits, random)).sum().backward();
    outputs += static_cast<double>(logits.size(0));
    body();
  }
  forget();
  return std::max(outputs, 1.0);
}

double sum_of_squares(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return tensor.to(at::kDouble).square().sum().item<double>();
  const at::Tensor floats = tensor.to(at::kFloat).contiguous();
  const float* const numbers = floats.const_data_ptr<float>();
  const std::int64_t count = floats.numel();
  // Several sums side by side, so that additions need not wait for each other.
  std::array<double, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::int64_t e = 0; e < 8; ++e) {
      const auto number = static_cast<double>(numbers[i + e]);
      sums[static_cast<std::size_t>(e)] += number * number;
    }
  for (; i < count; ++i) {
    const auto number = static_cast<double>(numbers[i]);
    sums[0] += number * number;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double squared_gradient(const NamedParameter& tensor) {
  if (!tensor.trainable || !tensor.tied_to.empty() || tensor.info.elements() == 0 ||
      !tensor.tensor.grad().defined())
    return 0;
  const double mean =
      sum_of_squares(tensor.tensor.grad()) / static_cast<double>(tensor.info.elements());
  if (!std::isfinite(mean))
    throw Error(Errc::kNonFinite, "the gradient by " + tensor.info.name +
                                      " is not finite on the training data, though the outputs "
                                      "are; rate.calibration = 0 does without gradients");
  return mean;
}

}  // namespace gbcompress
