#include "statistics/layer_sequence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "gbcompress/error.h"
#include "statistics/collect.h"
#include "statistics/layer_inputs.h"

namespace gbcompress {
namespace {

/// So many outputs, and of samples at least and at most so many; fewer where a walk through all
/// groups, each of which takes a forward pass, would take more multiply-adds than that.
constexpr double kWalk = 2e11;
constexpr std::int64_t kOutputs = 1 << 14, kFewest = 64, kMost = 4096, kSequenceBatch = 32;
/// More than there are.
constexpr std::int64_t kAllRows = std::int64_t{1} << 40;
/// Rows of inputs that are kept of a matrix.
constexpr std::int64_t kSequenceRows = 1 << 14;

/// @param work  multiply-adds of a walk, for each sample
Dataset first_of(const Dataset& samples, double work) {
  const auto most = static_cast<std::int64_t>(std::min(kWalk / std::max(work, 1.0), 1.0 * kMost));
  const std::int64_t count =
      std::clamp(std::min(kOutputs / samples.predictions(), most), kFewest, kMost);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < std::min(count, samples.size()); ++i) rows.push_back(i);
  return samples.subset(rows);
}

}  // namespace

LayerSequence::LayerSequence(Model& model, const ModelSnapshot& originals, const Dataset& samples,
                             std::int64_t bytes)
    : model_(model), originals_(originals), samples_(samples), most_bytes_(bytes) {
  for (std::size_t i = 0; i < model.tensors().size(); ++i) index_[model.tensors()[i].info.name] = i;
  originals_.restore(model_);
  const double pass = find_groups();
  samples_ = first_of(samples, pass * static_cast<double>(groups_.size()));
  measure_inputs();
}

/// One forward pass tells which matrices are seen, and in what order.
/// @return its multiply-adds for each sample
double LayerSequence::find_groups() {
  const at::NoGradGuard no_grad;
  const std::int64_t count = std::min<std::int64_t>(2, samples_.size());
  double work = 0;
  std::vector<char> known(model_.tensors().size());
  std::optional<LayerCall> last;  // its input is kept, so that no other takes its memory
  LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
    const ParameterInfo& info = model_.tensors()[call.tensor].info;
    const std::int64_t rows = call.rows(kAllRows).size(0);
    work += static_cast<double>(rows) * static_cast<double>(info.elements());
    if (std::exchange(known[call.tensor], 1)) return;
    if (call.groups > 1 || info.elements() > kWidest * info.shape[0]) return;
    if (!last || !last->input.is_alias_of(call.input) || last->form != call.form)
      groups_.emplace_back();
    groups_.back().push_back(call.tensor);
    last = call;
    last->rows = nullptr;
  });
  model_.train(false);
  model_.forward(samples_.range(0, count).inputs);
  seen.check();
  return work / static_cast<double>(count);
}

void LayerSequence::measure_inputs() {
  if (groups_.empty()) return;
  const at::NoGradGuard no_grad;
  for (const std::vector<std::size_t>& group : groups_) bytes_[group.front()] = 0;
  const std::int64_t count = std::min(kSequenceBatch, samples_.size());
  const std::int64_t most = rows_of(count);
  LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
    const auto found = bytes_.find(call.tensor);
    if (found == bytes_.end()) return;
    found->second += static_cast<std::int64_t>(call.rows(most).nbytes()) * samples_.size() / count;
  });
  model_.forward(samples_.range(0, count).inputs);
  seen.check();
}

std::vector<std::vector<std::string>> LayerSequence::groups() {
  std::vector<std::vector<std::string>> names;
  for (const std::vector<std::size_t>& group : groups_) {
    names.emplace_back();
    for (const std::size_t i : group) names.back().push_back(model_.tensors()[i].info.name);
  }
  return names;
}

void LayerSequence::begin() {
  put_.clear();
  originals_.restore(model_);
}

void LayerSequence::put(const std::string& name, std::span<const float> values) {
  const at::NoGradGuard no_grad;
  const std::size_t i = index_.at(name);
  const at::Tensor& tensor = model_.tensors()[i].tensor;
  at::Tensor now = at::empty(tensor.sizes(), at::kFloat);
  std::memcpy(now.mutable_data_ptr(), values.data(), values.size_bytes());
  tensor.detach().copy_(now);
  put_[i] = std::move(now);
}

void LayerSequence::keep(std::size_t first) {
  before_.clear();
  std::int64_t used = 0;
  auto at = std::ranges::find(groups_, first, [](const auto& group) { return group.front(); });
  for (; at != groups_.end(); ++at) {
    used += bytes_.at(at->front());
    if (used > most_bytes_ && !before_.empty()) break;
    before_[at->front()];
  }
  originals_.restore(model_);
  for_batches([&](std::size_t, const at::Tensor& inputs, std::int64_t most) {
    for (auto& [ignored, batches] : before_) batches.emplace_back();
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      const auto found = before_.find(call.tensor);
      if (found == before_.end()) return;
      // On the host, whose memory `most_bytes_` is of.
      found->second.back().push_back(
          call.rows(most).to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    });
    model_.forward(inputs);
    seen.check();
  });
  for (const auto& [i, values] : put_) model_.tensors()[i].tensor.detach().copy_(values);
}

std::int64_t LayerSequence::rows_of(std::int64_t count) const {
  return std::max<std::int64_t>(1, kSequenceRows * count / samples_.size());
}

void LayerSequence::for_batches(const Body& body) const {
  for (std::int64_t first = 0; first < samples_.size(); first += kSequenceBatch) {
    throw_if_interrupted();
    const std::int64_t count = std::min(kSequenceBatch, samples_.size() - first);
    body(static_cast<std::size_t>(first / kSequenceBatch), samples_.range(first, count).inputs,
         rows_of(count));
  }
}

SequentialInputs LayerSequence::inputs(const std::string& name) {
  const at::NoGradGuard no_grad;
  const std::size_t tensor = index_.at(name);
  if (!before_.contains(tensor)) keep(tensor);
  at::Tensor cross, now, mean, mean_before;
  double count = 0;
  for_batches([&](std::size_t batch, const at::Tensor& inputs, std::int64_t most) {
    const std::vector<at::Tensor>& originals = before_.at(tensor).at(batch);
    std::size_t use = 0;
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      if (call.tensor != tensor || use >= originals.size()) return;
      const at::Tensor rows = call.rows(most), original = originals[use++].to(rows.device());
      if (!now.defined()) {
        now = at::zeros({rows.size(1), rows.size(1)}, rows.options().dtype(at::kDouble));
        cross = at::zeros_like(now);
        mean = at::zeros({rows.size(1)}, now.options());
        mean_before = at::zeros_like(mean);
      }
      now.add_(rows.t().mm(rows));
      cross.add_((original - rows).t().mm(rows));
      mean.add_(rows.sum(0, /*keepdim=*/false, at::kDouble));
      mean_before.add_(original.sum(0, /*keepdim=*/false, at::kDouble));
      count += static_cast<double>(rows.size(0));
    });
    model_.forward(inputs);
    seen.check();
  });
  const double share = 1 / std::max(count, 1.0);
  return {floats_of(now * share), floats_of(cross * share), floats_of(mean * share),
          floats_of(mean_before * share)};
}

}  // namespace gbcompress
