#include "diagnostics.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <numbers>

#include "../common/stage_tensors.h"

namespace gbcompress::dtp {
namespace {

double cosine(const at::Tensor& a, const at::Tensor& b) {
  const double norms = a.norm().item<double>() * b.norm().item<double>();
  return norms > 0 ? (a * b).sum().item<double>() / norms : 0;
}

at::Tensor flat_gradients(const Stage& stage) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& p : trainable_of(stage))
    parts.push_back(p.grad().defined() ? p.grad().flatten().clone()
                                       : at::zeros({p.numel()}, p.options().requires_grad(false)));
  return parts.empty() ? at::zeros({1}) : at::cat(parts);
}

void clear(const Stage& stage) {
  for (at::Tensor& p : trainable_of(stage)) p.mutable_grad().reset();
}

}  // namespace

Diagnostics::Diagnostics(const std::vector<Stage>& stages, const std::vector<at::Tensor>& inputs,
                         const std::vector<at::Tensor>& outputs, bool on)
    : stages_(stages), inputs_(inputs), outputs_(outputs), on_(on) {}

void Diagnostics::before(const at::Tensor& error) {
  if (!on_) return;
  for (const Stage& stage : stages_) {
    earlier_.emplace_back();
    for (const at::Tensor& p : trainable_of(stage)) earlier_.back().push_back(p.grad());
    clear(stage);
  }
  at::Tensor change = error;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    outputs_[i].backward(change, /*retain_graph=*/true);
    if (i > 0) change = inputs_[i].grad().clone();
  }
  for (const Stage& stage : stages_) {
    gradients_.push_back(flat_gradients(stage));
    clear(stage);
  }
}

void Diagnostics::after(std::map<std::string, double>& measured,
                        const std::vector<StageCall>& calls,
                        const std::vector<std::unique_ptr<Feedback>>& feedback,
                        const NoiseKey& key) {
  if (!on_) return;
  std::vector<at::Tensor> local;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    local.push_back(flat_gradients(stages_[i]));
    measured["cosine." + stages_[i].name] = cosine(local[i], gradients_[i]);
  }
  for (std::size_t i = 1; i < stages_.size(); ++i) {
    NoiseKey own = key;
    own.layer = stages_[i].name;
    const at::Tensor change = normal_noise(own, outputs_[i].sizes().vec()).to(outputs_[i].device());
    at::Tensor input = inputs_[i];
    input.mutable_grad().reset();
    std::vector<at::Tensor> kept;
    for (const at::Tensor& p : trainable_of(stages_[i])) kept.push_back(p.grad().clone());
    outputs_[i].backward(change);
    auto own_parameters = trainable_of(stages_[i]);
    for (std::size_t p = 0; p < kept.size(); ++p) own_parameters[p].mutable_grad() = kept[p];
    const at::Tensor wanted = input.grad(), given = feedback[i - 1]->action(calls[i - 1], change);
    const double near = std::clamp(cosine(wanted, given), -1.0, 1.0);
    measured["angle." + stages_[i].name] = std::acos(near) * 180 / std::numbers::pi;
    measured["distance." + stages_[i].name] =
        (given - wanted).norm().item<double>() / std::max(wanted.norm().item<double>(), 1e-30);
  }
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    auto own = trainable_of(stages_[i]);
    for (std::size_t p = 0; p < own.size(); ++p)
      if (earlier_[i][p].defined()) own[p].mutable_grad().add_(earlier_[i][p]);
  }
}

}  // namespace gbcompress::dtp
