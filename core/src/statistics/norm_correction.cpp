#include "statistics/norm_correction.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "gbcompress/error.h"
#include "statistics/norm_inputs.h"

namespace gbcompress {
namespace {

using enum BatchNorm::Vector;
constexpr std::int64_t kBatch = 64;
/// A variance changes by at most this factor.
constexpr double kLargestRatio = 16;

void run(Model& model, const Dataset& samples, NormInputs& seen) {
  model.train(false);
  const std::int64_t batches = std::max<std::int64_t>(1, samples.size() / kBatch);
  for (std::int64_t b = 0; b < batches; ++b) {
    throw_if_interrupted();
    const std::int64_t first = samples.size() * b / batches;
    model.forward(samples.range(first, samples.size() * (b + 1) / batches - first).inputs);
    seen.check();
  }
}

/// Count, sum and sum of squares of each channel. float64 [3, channels]
at::Tensor sums_of(const at::Tensor& input) {
  const at::Tensor rows = input.detach().to(at::kFloat).transpose(0, 1).flatten(1);
  const at::Tensor sum = rows.sum(1, /*keepdim=*/false, at::kDouble);
  const at::Tensor count = at::full_like(sum, static_cast<double>(rows.size(1)));
  return at::stack({count, sum, rows.square().sum(1, /*keepdim=*/false, at::kDouble)}).to(at::kCPU);
}

struct Moments {
  at::Tensor mean, variance;
};

Moments moments_of(const at::Tensor& sums) {
  const at::Tensor mean = sums[1] / sums[0];
  return {mean, (sums[2] / sums[0] - mean.square()).clamp_min(0)};
}

}  // namespace

NormCorrection::NormCorrection(Model& model, Dataset samples) : samples_(std::move(samples)) {
  const at::NoGradGuard no_grad;
  if (samples_.size() < 2 || !model.has_forward()) return;
  const std::vector<BatchNorm> found = find_batch_norms(model.tensors());
  if (found.empty()) return;
  std::vector<Start> starts(found.size());
  NormInputs seen(model, found, [&](const NormCall& call) {
    starts[call.norm].sums.push_back(sums_of(call.input));
  });
  run(model, samples_, seen);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (starts[i].sums.empty()) continue;
    for (std::size_t k = 0; k < found[i].tensors.size(); ++k)
      starts[i].values[k] =
          model.tensors()[found[i].tensors[k]].tensor.to(at::kCPU, at::kDouble).clone();
    norms_.push_back(found[i]);
    starts_.push_back(std::move(starts[i]));
  }
}

void NormCorrection::apply(Model& model) const {
  if (norms_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto live = [&](std::size_t norm, BatchNorm::Vector which) -> at::Tensor& {
    return model.tensors()[norms_[norm].tensors[which]].tensor;
  };
  for (std::size_t i = 0; i < norms_.size(); ++i)
    for (const BatchNorm::Vector which : {kWeight, kBias, kMean, kVariance})
      live(i, which).copy_(starts_[i].values[which]);
  struct Totals {
    std::size_t calls = 0;
    at::Tensor before, now;
  };
  std::vector<Totals> totals(norms_.size());
  NormInputs seen(model, norms_, [&](const NormCall& call) {
    Totals& total = totals[call.norm];
    const Start& start = starts_[call.norm];
    if (total.calls == start.sums.size()) return;
    const at::Tensor &before = start.sums[total.calls++], now = sums_of(call.input);
    total.before = total.before.defined() ? total.before + before : before;
    total.now = total.now.defined() ? total.now + now : now;
    const Moments first = moments_of(total.before), second = moments_of(total.now);
    const at::Tensor ratio = ((second.variance + call.eps) / (first.variance + call.eps))
                                 .clamp(1 / kLargestRatio, kLargestRatio);
    live(call.norm, kMean).copy_(second.mean + (start.values[kMean] - first.mean) * ratio.sqrt());
    live(call.norm, kVariance).copy_(start.values[kVariance] * ratio);
  });
  run(model, samples_, seen);
}

std::vector<std::size_t> NormCorrection::vectors() const {
  std::vector<std::size_t> result;
  for (const BatchNorm& norm : norms_)
    result.insert(result.end(), {norm.tensors[kWeight], norm.tensors[kBias]});
  return result;
}

}  // namespace gbcompress
