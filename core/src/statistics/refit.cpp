#include "statistics/refit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "gbcompress/error.h"
#include "statistics/layer_inputs.h"
#include "statistics/second_order.h"

namespace gbcompress {
namespace {

/// So many outputs, and of samples at least and at most so many.
constexpr std::int64_t kOutputs = 1 << 14, kFewest = 64, kMost = 256, kRefitBatch = 32;
/// Rows of inputs that are kept of a matrix.
constexpr std::int64_t kRows = 1 << 14;
/// Rows of a matrix that are fitted together, in float64.
constexpr std::int64_t kFittedRows = 2048;
/// More than where samples are plenty: on the character transformer 0.05 lost less than 0.01.
constexpr double kRefitDamp = 0.05;

Dataset first_of(const Dataset& samples) {
  const std::int64_t outputs = samples.predictions();
  const std::int64_t count = std::clamp(kOutputs / outputs, kFewest, kMost);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < std::min(count, samples.size()); ++i) rows.push_back(i);
  return samples.subset(rows);
}

}  // namespace

Refit::Refit(Model& model, const Dataset& samples, std::vector<std::size_t> first,
             std::int64_t bytes)
    : samples_(first_of(samples)), first_(std::move(first)), most_bytes_(bytes) {
  if (first_.empty()) return;
  const at::NoGradGuard no_grad;
  for (const std::size_t t : first_) bytes_[t];
  const std::int64_t count = std::min(kRefitBatch, samples_.size());
  const std::int64_t most = rows_of(count);
  LayerInputs seen(model.tensors(), [&](const LayerCall& call) {
    const auto found = bytes_.find(call.tensor);
    if (found != bytes_.end())
      found->second +=
          static_cast<std::int64_t>(call.rows(most).nbytes()) * samples_.size() / count;
  });
  model.forward(samples_.range(0, count).inputs);
  seen.check();
  keep(model, first_.front());
}

void Refit::keep(Model& model, std::size_t tensor) {
  const at::NoGradGuard no_grad;
  originals_.clear();
  std::int64_t used = 0;
  for (auto at = std::ranges::find(first_, tensor); at != first_.end(); ++at) {
    used += bytes_.at(*at);
    if (used > most_bytes_ && !originals_.empty()) break;
    originals_[*at];
  }
  for_batches([&](std::size_t, const at::Tensor& inputs, std::int64_t most) {
    for (auto& [ignored, batches] : originals_) batches.emplace_back();
    LayerInputs seen(model.tensors(), [&](const LayerCall& call) {
      const auto found = originals_.find(call.tensor);
      if (found == originals_.end()) return;
      // On the host, whose memory `most_bytes_` is of.
      found->second.back().push_back(
          call.rows(most).to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    });
    model.forward(inputs);
    seen.check();
  });
}

std::int64_t Refit::rows_of(std::int64_t count) const {
  return std::max<std::int64_t>(1, kRows * count / samples_.size());
}

void Refit::for_batches(const Body& body) const {
  for (std::int64_t first = 0; first < samples_.size(); first += kRefitBatch) {
    throw_if_interrupted();
    const std::int64_t count = std::min(kRefitBatch, samples_.size() - first);
    body(static_cast<std::size_t>(first / kRefitBatch), samples_.range(first, count).inputs,
         rows_of(count));
  }
}

Refit::Moments Refit::moments(Model& model, std::size_t tensor) const {
  const at::NoGradGuard no_grad;
  at::Tensor cross, now;
  for_batches([&](std::size_t batch, const at::Tensor& inputs, std::int64_t most) {
    const std::vector<at::Tensor>& before = originals_.at(tensor).at(batch);
    std::size_t use = 0;
    LayerInputs seen(model.tensors(), [&](const LayerCall& call) {
      if (call.tensor != tensor || use >= before.size()) return;
      const at::Tensor rows = call.rows(most), original = before[use++].to(rows.device());
      if (!now.defined()) {
        now = at::zeros({rows.size(1), rows.size(1)}, rows.options().dtype(at::kDouble));
        cross = at::zeros_like(now);
      }
      now.add_(rows.t().mm(rows));
      cross.add_((original - rows).t().mm(rows));
    });
    model.forward(inputs);
    seen.check();
  });
  return {cross.to(at::kCPU), factor_of(now, kRefitDamp)};
}

at::Tensor Refit::Moments::fitted(const at::Tensor& weights) const {
  const at::Tensor all = weights.reshape({weights.size(0), -1});
  at::Tensor result = at::empty(all.sizes(), at::kFloat);
  for (std::int64_t first = 0; first < all.size(0); first += kFittedRows) {
    const std::int64_t count = std::min(kFittedRows, all.size(0) - first);
    const at::Tensor w = all.narrow(0, first, count).to(at::kDouble);
    at::Tensor change = w.mm(cross).contiguous();
    factor->solve({change.data_ptr<double>(), static_cast<std::size_t>(change.numel())});
    result.narrow(0, first, count).copy_(w + change);
  }
  return result;
}

}  // namespace gbcompress
