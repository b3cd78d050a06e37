#include "component.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/associated.h>
#include <gbcompress/error.h>
#include <gbcompress/model.h>
#include <gbcompress/strategy.h>

#include <cmath>

#include "../common/channels_last.h"
#include "../common/masked_mean.h"

namespace gbcompress::al {

at::MemoryFormat signal_layout(std::size_t dimensions) {
  return dimensions == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::Tensor laid_out(const at::Tensor& signal) {
  return channels_last(signal).contiguous(signal_layout(static_cast<std::size_t>(signal.dim())));
}

at::Tensor pooled(const at::Tensor& signal, std::int64_t pool, const at::Tensor& mask) {
  if (signal.dim() == 4 && (signal.size(2) > pool || signal.size(3) > pool))
    return at::adaptive_avg_pool2d(signal,
                                   {std::min(pool, signal.size(2)), std::min(pool, signal.size(3))})
        .flatten(1);
  if (signal.dim() != 3) return signal.flatten(1);
  return masked_mean(signal, mask.defined() ? mask : held_positions(signal));
}

Component::Component(std::vector<Stage> stages, const at::Tensor& input, const at::Tensor& mask,
                     std::int64_t before, const Settings& settings, std::size_t number,
                     std::uint64_t seed, const std::map<std::string, at::Tensor>& exit)
    : stages_(std::move(stages)),
      pool_(settings.pool),
      width_(settings.widths[number]),
      forms_(settings.forms),
      loss_(settings.loss),
      first_(number == 0),
      name_(stages_.back().name) {
  const c10::NoGradGuard no_grad;
  example_ = input;
  for (const Stage& stage : stages_) example_ = apply(stage, example_, mask);
  const std::int64_t inputs = pooled(example_, pool_, mask).size(1);
  const std::int64_t hidden = settings.bridge > 0 ? settings.bridge : inputs;
  const auto of_exit = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias"}) of_exit_.push_back(exit.at(name + part));
    return Dense{exit.at(name + ".weight"), exit.at(name + ".bias")};
  };
  device_ = example_.device();
  code_ = dense(before, width_, "code", seed, of_codes_);
  if (exit.empty()) {
    if (settings.bridge > 0) bridge_.push_back(dense(inputs, hidden, "bridge0", seed, of_bridge_));
    bridge_.push_back(dense(hidden, width_, "bridge1", seed, of_bridge_));
    back_ = dense(width_, before, "back", seed, of_codes_);
  } else {
    if (settings.bridge > 0) bridge_.push_back(of_exit("bridge0"));
    bridge_.push_back(of_exit("bridge1"));
    back_ = of_exit("back");
  }
  AdamWOptions options;
  options.lr = settings.lr;
  options.beta2 = settings.beta2;
  options.weight_decay = 0;
  bridge_optimizer_ = std::make_unique<AdamW>(of_bridge_, options);
  code_optimizer_ = std::make_unique<AdamW>(of_codes_, options);
}

at::Tensor Component::Dense::operator()(const at::Tensor& x) const {
  return at::linear(x, weight, bias);
}

Component::Dense Component::dense(std::int64_t inputs, std::int64_t outputs,
                                  const std::string& name, std::uint64_t seed,
                                  std::vector<at::Tensor>& parameters) {
  Dense result;
  result.weight = normal_noise({seed, "al.init", name_ + "." + name, 0}, {outputs, inputs})
                      .mul_(1 / std::sqrt(static_cast<double>(inputs)))
                      .to(device_);
  result.bias = at::zeros({outputs}, result.weight.options());
  for (at::Tensor* p : {&result.weight, &result.bias}) {
    p->set_requires_grad(true);
    parameters.push_back(*p);
  }
  return result;
}

at::Tensor Component::bridge(const at::Tensor& signal, const at::Tensor& mask) const {
  at::Tensor x = pooled(signal, pool_, mask);
  for (std::size_t i = 0; i < bridge_.size(); ++i)
    x = al::apply(i + 1 < bridge_.size() ? forms_.hidden : forms_.codes, bridge_[i](x));
  return x;
}

at::Tensor Component::decode(const at::Tensor& code) const {
  return al::apply(forms_.decoder, back_(code));
}

at::Tensor Component::error(const at::Tensor& given, const at::Tensor& expected) const {
  return loss_ == CodeLoss::kMse ? at::mse_loss(given, expected) : code_nats(given, expected);
}

void Component::update(AdamW& optimizer, std::vector<at::Tensor>& parameters, double lr_factor) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : parameters) gradients.push_back(p.grad());
  optimizer.step(gradients, lr_factor);
  for (at::Tensor& p : parameters) p.mutable_grad().reset();
}

Item Component::step(const Item& in, double lr_factor) {
  const c10::AutoGradMode with_grad(true);
  const at::Tensor code = al::apply(forms_.codes, code_(in.code));
  const at::Tensor back = decode(code);
  const bool scores = first_ && (loss_ == CodeLoss::kNats || forms_.decoder == Activation::kNone);
  const at::Tensor code_loss =
      scores ? at::cross_entropy_loss(back, in.code) : error(back, in.code);
  at::Tensor signal = in.signal;
  for (const Stage& stage : stages_) signal = apply(stage, signal, in.mask);
  const at::Tensor bridge_loss = error(bridge(signal, in.mask), code.detach());
  code_loss_ = code_loss.item<double>();
  bridge_loss_ = bridge_loss.item<double>();
  code_loss.backward();
  // What is the model's is multiplied by the batch's weight, which is 1 for whole batches; what is
  // not, learns as it is.
  (in.weight == 1 ? bridge_loss : bridge_loss * in.weight).backward();
  const c10::NoGradGuard no_grad;
  update(*code_optimizer_, of_codes_, lr_factor);
  update(*bridge_optimizer_, of_bridge_, lr_factor);
  Item next = in;
  next.signal = laid_out(signal.detach());
  next.code = code.detach();
  return next;
}

std::int64_t Component::own_weights() const {
  std::int64_t count = 0;
  for (const auto* own : {&of_bridge_, &of_codes_})
    for (const at::Tensor& p : *own) count += p.numel();
  return count;
}

std::vector<at::Tensor> Component::state() const {
  std::vector<at::Tensor> result;
  const auto add = [&](const std::vector<at::Tensor>& parameters, const AdamW& optimizer) {
    const AdamW::State state = optimizer.state();
    for (const at::Tensor& p : parameters) result.push_back(p.detach().clone());
    for (const at::Tensor& moment : state.first) result.push_back(moment);
    for (const at::Tensor& moment : state.second) result.push_back(moment);
    result.push_back(at::tensor(state.steps, at::kLong));
  };
  add(of_bridge_, *bridge_optimizer_);
  add(of_codes_, *code_optimizer_);
  return result;
}

void Component::restore(const std::vector<at::Tensor>& state) {
  const c10::NoGradGuard no_grad;
  std::size_t at = 0;
  const auto take = [&](std::vector<at::Tensor>& parameters, AdamW& optimizer) {
    AdamW::State moments;
    for (at::Tensor& p : parameters) p.copy_(state.at(at++));
    for (std::size_t i = 0; i < parameters.size(); ++i) moments.first.push_back(state.at(at++));
    for (std::size_t i = 0; i < parameters.size(); ++i) moments.second.push_back(state.at(at++));
    const at::Tensor steps = state.at(at++);
    for (std::int64_t i = 0; i < steps.numel(); ++i)
      moments.steps.push_back(steps[i].item<std::int64_t>());
    optimizer.restore(moments);
  };
  take(of_bridge_, *bridge_optimizer_);
  take(of_codes_, *code_optimizer_);
}

}  // namespace gbcompress::al
