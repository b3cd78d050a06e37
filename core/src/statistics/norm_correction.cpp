#include "statistics/norm_correction.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "gbcompress/error.h"
#include "model/batch_norms.h"

namespace gbcompress {
namespace {

using enum BatchNorm::Vector;
constexpr std::int64_t kBatch = 64;
/// A channel whose variance changes by more has died or was dead; it is left alone.
constexpr double kLargestRatio = 16;
/// Momentum below which a norm's statistics do not move in training mode, as in traced models.
constexpr double kMovesAtAll = 1e-6;

/// A model that computes as in training, whose buffers and random numbers are put back afterwards.
class AsInTraining {
 public:
  explicit AsInTraining(Model& model)
      : model_(model), generator_(at::detail::getDefaultCPUGenerator()) {
    for (const NamedParameter& p : model.tensors())
      buffers_.push_back(p.trainable ? at::Tensor() : p.tensor.detach().clone());
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    model.train(true);
  }
  ~AsInTraining() {
    restore_buffers();
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
    model_.train(false);
  }
  AsInTraining(const AsInTraining&) = delete;
  AsInTraining& operator=(const AsInTraining&) = delete;

  void restore_buffers() {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].defined()) model_.tensors()[i].tensor.copy_(buffers_[i]);
  }
  /// The same for every batch: what dropout draws is no difference between two models.
  void seed() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_current_seed(0);
  }

 private:
  Model& model_;
  std::vector<at::Tensor> buffers_;
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

NormCorrection::NormCorrection(Model& model, Dataset samples) : samples_(std::move(samples)) {
  const at::NoGradGuard no_grad;
  for (const BatchNorm& found : find_batch_norms(model.tensors())) {
    Norm norm;
    norm.tensors = found.tensors;
    for (std::size_t k = 0; k < norm.tensors.size(); ++k)
      norm.values[k] = model.tensors()[norm.tensors[k]].tensor.to(at::kDouble).clone();
    norms_.push_back(std::move(norm));
  }
  if (samples_.size() < 2) norms_.clear();
  if (norms_.empty()) return;
  // Of a statistic that was 1 rather than 0, a batch leaves what it does not move.
  const Reached ones = reached(model, 1, 1), zeros = reached(model, 0, 1);
  for (std::size_t i = 0; i < norms_.size(); ++i)
    norms_[i].moved = 1 - (ones.variance[i] - zeros.variance[i]).mean().item<double>();
  std::erase_if(norms_, [](const Norm& norm) { return norm.moved < kMovesAtAll; });
  if (norms_.empty()) return;
  const Reached start = reached(model, 0, samples_.size());
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    norms_[i].mean = start.mean[i] / norms_[i].moved;
    norms_[i].variance = start.variance[i];
  }
}

NormCorrection::Reached NormCorrection::reached(Model& model, double variance_before,
                                                std::int64_t most_batches) const {
  const at::NoGradGuard no_grad;
  const std::int64_t batches =
      std::min(most_batches, std::max<std::int64_t>(1, samples_.size() / kBatch));
  Reached sums;
  AsInTraining as_in_training(model);
  for (std::int64_t b = 0; b < batches; ++b) {
    throw_if_interrupted();
    as_in_training.restore_buffers();
    as_in_training.seed();
    for (const Norm& norm : norms_) {
      model.tensors()[norm.tensors[kMean]].tensor.zero_();
      model.tensors()[norm.tensors[kVariance]].tensor.fill_(variance_before);
    }
    const std::int64_t first = samples_.size() * b / batches;
    model.forward(samples_.range(first, samples_.size() * (b + 1) / batches - first).inputs);
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      const auto add = [&](std::vector<at::Tensor>& to, std::size_t tensor) {
        const at::Tensor value =
            model.tensors()[tensor].tensor.to(at::kDouble) / static_cast<double>(batches);
        if (b == 0)
          to.push_back(value);
        else
          to[i] += value;
      };
      add(sums.mean, norms_[i].tensors[kMean]);
      add(sums.variance, norms_[i].tensors[kVariance]);
    }
  }
  return sums;
}

void NormCorrection::apply(Model& model) const {
  if (norms_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto live = [&](const Norm& norm, int k) -> at::Tensor& {
    return model.tensors()[norm.tensors[static_cast<std::size_t>(k)]].tensor;
  };
  for (const Norm& norm : norms_) {
    live(norm, kWeight).copy_(norm.values[kWeight]);
    live(norm, kBias).copy_(norm.values[kBias]);
  }
  const Reached now = reached(model, 0, samples_.size());
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const Norm& norm = norms_[i];
    const at::Tensor ratio = now.variance[i] / norm.variance;
    // A channel's values are mapped back to the mean and deviation that they had.
    const at::Tensor sound = ratio.gt(1 / kLargestRatio).logical_and(ratio.lt(kLargestRatio));
    const at::Tensor mean =
        now.mean[i] / norm.moved + (norm.values[kMean] - norm.mean) * ratio.sqrt();
    live(norm, kMean).copy_(at::where(sound, mean, norm.values[kMean]));
    live(norm, kVariance)
        .copy_(at::where(sound, norm.values[kVariance] * ratio, norm.values[kVariance]));
  }
}

std::vector<std::size_t> NormCorrection::vectors() const {
  std::vector<std::size_t> result;
  for (const Norm& norm : norms_)
    result.insert(result.end(), {norm.tensors[kWeight], norm.tensors[kBias]});
  return result;
}

}  // namespace gbcompress
