#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "optim/adamw_step.h"

namespace gbcompress {
namespace {

/// Moments, unless there are some: those of a model that is never stepped take no memory.
void make_moments(const std::vector<at::Tensor>& parameters, AdamW::State& state) {
  if (!state.first.empty()) return;
  for (const at::Tensor& parameter : parameters) {
    state.first.push_back(at::zeros_like(parameter));
    state.second.push_back(at::zeros_like(parameter));
  }
}

constexpr std::int64_t kThreadNumbers = std::int64_t{1} << 15;

/// What step_one() computes, by operations of LibTorch: for other devices.
void step_by_operations(const AdamWOptions& options, double lr, std::int64_t steps,
                        const at::Tensor& x, const at::Tensor& gradient, const at::Tensor& first,
                        const at::Tensor& second) {
  const auto t = static_cast<double>(steps);
  first.add_(gradient - first, 1 - options.momentum);
  second.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
  const at::Tensor slope =
      second.sqrt().mul_(1 / std::sqrt(1 - std::pow(options.beta2, t))).add_(options.eps);
  x.mul_(1 - lr * options.weight_decay);
  x.addcdiv_(first, slope, -lr / (1 - std::pow(options.momentum, t)));
}

/// SGD, of tensors as step_one() takes them.
void descend(const AdamWOptions& options, double lr, const at::Tensor& x,
             const at::Tensor& gradient, const at::Tensor& velocity) {
  if (x.scalar_type() != at::kFloat || !x.device().is_cpu()) {
    velocity.mul_(options.momentum).add_(gradient).add_(x, options.weight_decay);
    x.sub_(velocity, lr);
    return;
  }
  const SgdStep step = sgd_factors(options, lr);
  float *const to = x.mutable_data_ptr<float>(), *const v = velocity.mutable_data_ptr<float>();
  const float* const g = gradient.const_data_ptr<float>();
  at::parallel_for(0, x.numel(), kThreadNumbers, [&](std::int64_t begin, std::int64_t end) {
    sgd_step(step, to + begin, g + begin, v + begin, end - begin);
  });
}

/// All of them dense and laid out alike. LibTorch's fused pass rounds the last numbers of a vector
/// in another way than the others, so that a parameter's bits would depend on how parameters are
/// cut into vectors, among ranks and threads; it is left to other types than float32.
void step_one(const AdamWOptions& options, double lr, std::int64_t steps, const at::Tensor& x,
              const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second) {
  if (!x.device().is_cpu())
    return step_by_operations(options, lr, steps, x, gradient, first, second);
  if (x.scalar_type() != at::kFloat) {
    const at::Tensor count = at::full({}, static_cast<double>(steps), at::kFloat);
    at::_fused_adamw_({x}, {gradient}, {first}, {second}, {}, {count}, lr, options.momentum,
                      options.beta2, options.weight_decay, options.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
    return;
  }
  const AdamWStep step = adamw_factors(options, lr, steps);
  float *const to = x.mutable_data_ptr<float>(), *const m = first.mutable_data_ptr<float>(),
               *const v = second.mutable_data_ptr<float>();
  const float* const g = gradient.const_data_ptr<float>();
  at::parallel_for(0, x.numel(), kThreadNumbers, [&](std::int64_t begin, std::int64_t end) {
    adamw_step(step, to + begin, g + begin, m + begin, v + begin, end - begin);
  });
}

}  // namespace

AdamW::AdamW(std::vector<at::Tensor> parameters, AdamWOptions options)
    : options_(options), parameters_(std::move(parameters)) {
  check_optimizer(options_);
  for (at::Tensor& parameter : parameters_) {
    if (!parameter.defined() || !parameter.is_floating_point() ||
        !parameter.is_non_overlapping_and_dense())
      throw Error(Errc::kUsage, "the optimizer needs dense parameters of a floating type");
    // The update works on storage; autograd must neither see it nor forbid it on a leaf.
    parameter = parameter.detach();
    state_.steps.push_back(0);
  }
}

void AdamW::step(const std::vector<at::Tensor>& gradients, double lr_factor) {
  check_lr_factor(lr_factor);
  bool fits = gradients.size() == parameters_.size();
  for (std::size_t i = 0; fits && i < gradients.size(); ++i)
    fits = !gradients[i].defined() || (gradients[i].sizes() == parameters_[i].sizes() &&
                                       gradients[i].scalar_type() == parameters_[i].scalar_type());
  if (!fits)
    throw Error(Errc::kShapeMismatch,
                "the optimizer's gradients must have the shapes and types of the parameters");
  make_moments(parameters_, state_);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    ++state_.steps[i];
    if (parameters_[i].numel() == 0) continue;
    // The fused pass walks storage: the gradient must lie as its parameter does.
    at::Tensor gradient = gradients[i].detach();
    if (gradient.strides() != parameters_[i].strides())
      gradient = at::empty_like(parameters_[i]).copy_(gradient);
    const double lr = options_.lr * lr_factor;
    if (options_.optimizer == OptimizerRule::kSgd)
      descend(options_, lr, parameters_[i], gradient, state_.first[i]);
    else
      step_one(options_, lr, state_.steps[i], parameters_[i], gradient, state_.first[i],
               state_.second[i]);
  }
}

std::int64_t AdamW::steps() const noexcept {
  return state_.steps.empty() ? 0 : *std::max_element(state_.steps.begin(), state_.steps.end());
}

AdamW::State AdamW::state() const {
  State copy{state_.steps, {}, {}};
  for (const at::Tensor& moment : state_.first) copy.first.push_back(moment.clone());
  for (const at::Tensor& moment : state_.second) copy.second.push_back(moment.clone());
  make_moments(parameters_, copy);
  return copy;
}

void AdamW::restore(const State& state) {
  const auto fits = [&](const std::vector<at::Tensor>& moments) {
    bool good = moments.size() == parameters_.size();
    for (std::size_t i = 0; good && i < moments.size(); ++i)
      good = moments[i].sizes() == parameters_[i].sizes() &&
             moments[i].scalar_type() == parameters_[i].scalar_type();
    return good;
  };
  if (state.steps.size() != parameters_.size() || !fits(state.first) || !fits(state.second))
    throw Error(Errc::kShapeMismatch, "the optimizer's state belongs to other parameters");
  state_.steps = state.steps;
  make_moments(parameters_, state_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state_.first[i].copy_(state.first[i]);
    state_.second[i].copy_(state.second[i]);
  }
}

}  // namespace gbcompress
