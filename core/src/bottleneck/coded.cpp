// Parameters and g-nets that are integers times a step while they train.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "artifact/integers/integers.h"
#include "bottleneck/impl.h"
#include "bottleneck/parameter_gnets.h"
#include "gbcompress/error.h"
#include "search/fit_size.h"

namespace gbcompress {
namespace {

/// Bits are counted for who watches, at every so many steps.
constexpr std::int64_t kStepsPerCount = 10;

}  // namespace

void GenomicBottleneck::Impl::make_latents() {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const NamedParameter& p = tensors[t];
    if (!p.trainable || !p.tied_to.empty() || !is_real(p.info.dtype) || p.info.elements() == 0 ||
        mode_of(p.info.name, options) != WeightMode::kQuantized)
      continue;
    integers.tensors.push_back(t);
    integers.quantized.latents.add(p.info.name, p.tensor, {}, options.row_steps);
  }
  if (integers.of_gnets) make_gnet_latents();
}

void GenomicBottleneck::Impl::make_gnet_latents() {
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    const Layer& layer = generated.layers[l];
    generated.routes[l].block = integers.gnets.latents.size();
    const auto blocks = gnet_blocks(layer.spec);
    const std::vector<IntegerGrid> grids = theta_grids(layer.spec);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const at::Tensor block = layer.theta.narrow(1, blocks[b].first, blocks[b].count);
      integers.gnets.latents.add(layer.name + "#theta" + std::to_string(b), block, grids[b]);
    }
  }
  connect_gnet_latents();
}

void GenomicBottleneck::Impl::connect_gnet_latents() {
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    const Layer& layer = generated.layers[l];
    const bool idle = !generated.idle.empty() && generated.idle[l];
    const auto blocks = gnet_blocks(layer.spec);
    for (std::size_t b = 0; b < blocks.size(); ++b)
      integers.gnets.latents.set_gradient(
          generated.routes[l].block + b,
          idle ? at::Tensor() : layer.grad.narrow(1, blocks[b].first, blocks[b].count));
  }
}

CodedTheta GenomicBottleneck::Impl::coded_theta(std::size_t layer) const {
  const std::size_t entry = generated.routes[layer].block;
  CodedTheta result;
  std::vector<std::int32_t> blocks;
  for (std::size_t b = 0; b < gnet_blocks(generated.layers[layer].spec).size(); ++b) {
    const CodedValues values = integers.gnets.latents.coded(entry + b);
    result.steps.push_back(values.step);
    blocks.insert(blocks.end(), values.integers.begin(), values.integers.end());
  }
  result.integers = from_blocks(generated.layers[layer].spec, blocks);
  return result;
}

void IntegerPart::Coded::make_optimizer(AdamWOptions options) {
  weight_decay = options.weight_decay;
  options.weight_decay = 0;
  optimizer = std::make_unique<AdamW>(latents.values(), options);
}

void IntegerPart::Coded::move_to_devices() {
  if (!latents.move_to_devices()) return;
  const AdamW before = std::move(*optimizer);
  optimizer = std::make_unique<AdamW>(latents.values(), before.options());
  if (before.steps() > 0) optimizer->restore(before.state());
}

void IntegerPart::Coded::backward(double loss_per_bit, const char* setting) {
  move_to_devices();
  const std::int64_t step = optimizer->steps();
  latents.backward(loss_per_bit, static_cast<std::uint64_t>(step), step % kStepsPerCount == 0);
  at::Tensor sums = at::zeros({}, at::kDouble), device_sums;  // one copy: each waits for the device
  for (const at::Tensor& gradient : latents.gradients()) {
    if (!gradient.defined()) continue;
    at::Tensor& to = gradient.device().is_cpu() ? sums : device_sums;
    const at::Tensor sum = gradient.sum();
    to = to.defined() ? to + sum : sum;
  }
  if (device_sums.defined()) sums = sums + device_sums.to(at::kCPU);
  if (!at::isfinite(sums).item<bool>())
    throw Error(Errc::kNonFinite, "a gradient is not finite at step " + std::to_string(step + 1) +
                                      "; lower the learning rate (" + setting + ")");
}

void IntegerPart::Coded::step(double lr_factor) {
  if (latents.size() == 0) return;
  if (weight_decay > 0) latents.decay(1 - optimizer->options().lr * lr_factor * weight_decay);
  optimizer->step(latents.gradients(), lr_factor);
}

void GenomicBottleneck::Impl::add_quantized_rate(bool idle_stay) {
  if (integers.tensors.empty()) return;
  integers.stream.reset();
  for (std::size_t t : integers.tensors) {
    at::Tensor& gradient = tensors[t].tensor.mutable_grad();
    if (!gradient.defined() && !idle_stay) gradient = at::zeros_like(tensors[t].tensor.detach());
  }
  integers.quantized.backward(integers.loss_per_bit, "rate.lr");
}

void GenomicBottleneck::Impl::add_gnet_rate() {
  if (!integers.of_gnets) return;
  integers.stream.reset();
  integers.gnets.backward(integers.loss_per_bit, "optim.lr");
}

IntegerPart::IntegerPart(const BottleneckOptions& options)
    : quantized(options.seed, options.step_speed),
      gnets(options.seed, options.step_speed),
      of_gnets(options.coding == Coding::kCoded),
      schedule(options.rate) {}

std::int64_t IntegerPart::steps() const {
  return (tensors.empty() ? gnets : quantized).optimizer->steps();
}

bool IntegerPart::chosen() const {
  return quantized.latents.has_chosen() || gnets.latents.has_chosen();
}

void IntegerPart::forget_chosen() {
  stream.reset();
  quantized.latents.forget_chosen();
  gnets.latents.forget_chosen();
}

void IntegerPart::expect(bool contexts) {
  quantized.latents.expect(contexts);
  gnets.latents.expect(contexts);
}

void IntegerPart::scale_steps(double factor) {
  stream.reset();
  quantized.latents.scale_steps(factor);
  gnets.latents.scale_steps(factor);
}

void GenomicBottleneck::Impl::begin_rate() {
  if (integers.rate_begun) return;
  set_rate(integers.steps());
  integers.rate_begun = true;
}

void GenomicBottleneck::Impl::set_rate(std::int64_t step) {
  if (!integers.any()) return;
  if (integers.schedule.refreshes(step)) {
    integers.expect(integers.schedule.contexts(step));
    if (integers.schedule.steers(step)) {
      // Every rank has all integers, but g-nets beside them may live on one rank.
      at::Tensor size = at::full({1}, bytes(), at::kLong);
      if (ranks.group) ranks.group->broadcast(size, 0).wait();
      const double factor = integers.schedule.steer(step, size.item<std::int64_t>());
      if (factor != 1) integers.scale_steps(factor);
    }
  }
  integers.loss_per_bit = integers.schedule.loss_per_bit(step);
}

void GenomicBottleneck::Impl::choose_integers(double lambda) {
  integers.stream.reset();
  IntegerEncoder thetas(CodecProfile::kSmall);
  for (std::size_t i = 0; i < integers.gnets.latents.size(); ++i)
    integers.gnets.latents.choose(i, lambda, thetas);
  // In the order of the file, so that the coder sees what it will write.
  IntegerEncoder encoder(CodecProfile::kSmall);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t l = 0; integers.of_gnets && l < generated.layers.size(); ++l) {
      if (generated.routes[l].tensor != t) continue;
      for (std::size_t b = 0; b < gnet_blocks(generated.layers[l].spec).size(); ++b) {
        const CodedValues block = integers.gnets.latents.coded(generated.routes[l].block + b);
        encoder.add(block.grid, block.integers);
      }
    }
    const auto found = std::find(integers.tensors.begin(), integers.tensors.end(), t);
    if (found != integers.tensors.end())
      integers.quantized.latents.choose(static_cast<std::size_t>(found - integers.tensors.begin()),
                                        lambda, encoder);
  }
  integers.stream = encoder.finish();
}

void GenomicBottleneck::Impl::fit_size(std::int64_t max_bytes) {
  gbcompress::fit_size(max_bytes, [&](double lambda) {
    choose_integers(lambda);
    return bytes();
  });
}

}  // namespace gbcompress
