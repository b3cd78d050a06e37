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

/// Labels [n] drawn from the rows of `logits` [n, classes].
at::Tensor drawn_labels(const at::Tensor& logits, const RandomStream& random, std::int64_t first) {
  const at::Tensor below = logits.detach().to(at::kDouble).softmax(1).cumsum(1);
  at::Tensor draws = at::empty({logits.size(0), 1}, at::kDouble);
  for (std::int64_t i = 0; i < logits.size(0); ++i)
    draws.data_ptr<double>()[i] = random.bits(static_cast<std::uint64_t>(first + i)) / 4294967296.0;
  return below.le(draws.to(below.device())).sum(1).clamp_max(logits.size(1) - 1);
}

/// Standard normal numbers: gradients of -log p where outputs are the means of normal
/// distributions of deviation 1, and targets are drawn of them.
at::Tensor drawn_noise(const at::Tensor& outputs, const RandomStream& random) {
  at::Tensor noise = at::empty(outputs.sizes(), at::kFloat);
  random.fill_normal({noise.data_ptr<float>(), static_cast<std::size_t>(noise.numel())}, 0, 1);
  return noise.to(outputs.device());
}

}  // namespace

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
  for (; first < last; first += kGradientBatch) {
    throw_if_interrupted();
    forget();
    const Batch batch = samples.range(first, std::min<std::int64_t>(kGradientBatch, last - first));
    const at::Tensor output = forward ? forward(batch.inputs) : model.forward(batch.inputs);
    const at::Tensor logits = output.flatten(0, -2).to(at::kFloat);
    check_finite_outputs(logits);
    const RandomStream random(seed, "calibrate", "labels", static_cast<std::uint64_t>(first));
    if (samples.has_classes())
      at::cross_entropy_loss(logits, drawn_labels(logits, random, 0), {}, at::Reduction::Sum)
          .backward();
    else
      (logits * drawn_noise(logits, random)).sum().backward();
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
