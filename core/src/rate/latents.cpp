#include "rate/latents.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "artifact/integers/transform.h"
#include "gbcompress/error.h"
#include "rate/laplace_rate.h"
#include "rate/pieces.h"
#include "rate/rate_operations.h"

namespace gbcompress {

void Latents::add(std::string name, at::Tensor live, std::optional<IntegerGrid> grid,
                  bool row_steps) {
  const at::NoGradGuard no_grad;
  LatentTensor entry;
  entry.name = std::move(name);
  entry.step_speed = step_speed_;
  entry.live = live;
  entry.latent = live.detach().to(at::kCPU, at::kFloat).clone(at::MemoryFormat::Contiguous);
  entry.spread = spread_of(numbers_of(entry.latent, 0, entry.latent.numel()), on_threads());
  entry.grid = grid ? *grid : default_grid(live.sizes().vec());
  entry.log_step = at::zeros({row_steps ? entry.grid.rows : 1}, at::kFloat);
  entry.set_step(first_step(entry.spread));
  entry.step_gradient = at::zeros_like(entry.log_step);
  entries_.push_back(std::move(entry));
}

void Latents::take(std::size_t index) {
  const at::NoGradGuard no_grad;
  LatentTensor& entry = entries_.at(index);
  entry.latent.copy_(entry.live.detach());
  entry.chosen.reset();
  entry.as_is = false;
}

void Latents::take_as_is(std::size_t index, std::optional<int> step) {
  take(index);
  LatentTensor& entry = entries_.at(index);
  if (step) entry.set_step(static_cast<double>(step_size(*step)));
  entry.as_is = true;
}

void Latents::take(std::size_t index, CodedValues values) {
  const at::NoGradGuard no_grad;
  LatentTensor& entry = entries_.at(index);
  const std::vector<float> numbers = tensor_floats(values, entry.latent.sizes().vec());
  if (static_cast<std::int64_t>(numbers.size()) != entry.latent.numel())
    throw Error(Errc::kShapeMismatch, "a different number of integers than " + entry.name + " has");
  entry.latent.copy_(at::tensor(numbers).view(entry.latent.sizes()));
  // Short floats have no step: the present one is kept.
  if (values.mantissa_bits == 0) entry.set_step(static_cast<double>(step_size(values.step)));
  float* log_step = entry.log_step.data_ptr<float>();
  if (values.row_steps.size() == static_cast<std::size_t>(entry.log_step.numel()))
    for (std::size_t row = 0; row < values.row_steps.size(); ++row)
      log_step[row] = std::log(step_size(values.step + values.row_steps[row])) /
                      static_cast<float>(step_speed_);
  entry.chosen.emplace(std::move(values));
  entry.as_is = false;
}

void Latents::LatentTensor::set_step(double size) { log_step.fill_(log_of_step(size, step_speed)); }

std::vector<int> Latents::LatentTensor::step_indices() const {
  std::vector<int> indices;
  for (const float x : numbers_of(log_step, 0, log_step.numel()))
    indices.push_back(step_of(x, step_speed));
  return indices;
}

std::vector<float> Latents::LatentTensor::steps() const {
  std::vector<float> sizes;
  for (const int k : step_indices()) sizes.push_back(step_size(k));
  return sizes;
}

at::Tensor Latents::LatentTensor::in_steps(const at::Tensor& numbers) const {
  const at::Tensor inverse = at::tensor(steps()).reciprocal_().unsqueeze(1);
  return (numbers.reshape({inverse.size(0), -1}) * inverse).view(latent.sizes());
}

at::Tensor Latents::LatentTensor::scale() const {
  if (!inverse_scale.defined()) inverse_scale = at::full_like(latent, 1 / kFirstScale);
  return inverse_scale;
}

std::vector<std::int32_t> Latents::LatentTensor::nearest(std::span<const float> sizes,
                                                         std::vector<std::int32_t> integers) const {
  integers.resize(static_cast<std::size_t>(latent.numel()));
  const at::Tensor values = host_latent();
  for_segments(segments_of(latent.numel(), sizes.size()), [&](std::size_t, const Segment& segment) {
    nearest_integers(numbers_of(values, segment.first, segment.count), sizes[segment.group],
                     integers.data() + segment.first);
  });
  return integers;
}

int Latents::LatentTensor::middle_step() const {
  std::vector<int> sorted = step_indices();
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<std::int32_t> Latents::LatentTensor::row_offsets(int middle) const {
  std::vector<std::int32_t> offsets;
  bool any = false;
  for (const int k : step_indices()) {
    offsets.push_back(k - middle);
    any = any || k != middle;
  }
  return any ? offsets : std::vector<std::int32_t>();
}

CodedValues Latents::LatentTensor::coded(std::vector<std::int32_t> integers) const {
  const int middle = middle_step();
  return {grid, std::move(integers), middle, row_offsets(middle)};
}

bool Latents::move_to_devices() {
  const at::NoGradGuard no_grad;
  bool any = false;
  for (LatentTensor& entry : entries_) {
    const at::Device device = entry.live.device();
    if (entry.latent.device() == device) continue;
    entry.latent = entry.latent.to(device);
    for (at::Tensor* each : {&entry.latent_gradient, &entry.inverse_scale})
      if (each->defined()) *each = each->to(device);
    any = true;
  }
  return any;
}

void Latents::LatentTensor::write_rounded(const at::Tensor& to) const {
  float* data = to.data_ptr<float>();
  if (chosen) {
    const std::vector<float> values = tensor_floats(chosen->unpacked(), latent.sizes().vec());
    std::copy(values.begin(), values.end(), data);
  } else {
    const std::vector<float> sizes = steps();
    for_segments(segments_of(latent.numel(), sizes.size()),
                 [&](std::size_t, const Segment& segment) {
                   round_to_step(numbers_of(latent, segment.first, segment.count),
                                 sizes[segment.group], data + segment.first);
                 });
  }
}

void Latents::predict() {
  const at::NoGradGuard no_grad;
  for (LatentTensor& entry : entries_) {
    if (entry.as_is) continue;
    if (!entry.on_host() && !entry.chosen) {
      entry.live.copy_(rounded_to_step(entry.latent, entry.steps()));
      continue;
    }
    const bool direct = entry.live.scalar_type() == at::kFloat && entry.live.is_contiguous() &&
                        entry.live.device().is_cpu();
    const at::Tensor to =
        direct ? entry.live.detach() : at::empty(entry.latent.sizes(), at::kFloat);
    entry.write_rounded(to);
    if (direct)
      entry.live.unsafeGetTensorImpl()->bump_version();  // autograd must notice the write
    else
      entry.live.copy_(to);
  }
}

void Latents::set_gradient(std::size_t entry, const at::Tensor& gradient) {
  entries_[entry].live.mutable_grad() = gradient;
}

double Latents::LatentTensor::largest() const {
  const at::Tensor numbers = host_latent();
  return numbers.numel() > 0 ? numbers.abs().max().item<double>() : 0;
}

void Latents::scale_steps(double factor) {
  const at::NoGradGuard no_grad;
  for (LatentTensor& entry : entries_) {
    const double largest = entry.largest();
    for (float& log_step : numbers_of(entry.log_step, 0, entry.log_step.numel()))
      log_step = scaled_log_step(log_step, factor, largest, step_speed_);
    entry.scale().mul_(factor).clamp_(1 / kLargestExpected, 1 / kLeastExpected);
  }
}

void Latents::decay(double factor) {
  const at::NoGradGuard no_grad;
  for (LatentTensor& entry : entries_)
    if (!entry.idle) entry.latent.mul_(factor);
}

std::vector<at::Tensor> Latents::values() const {
  std::vector<at::Tensor> result;
  for (const LatentTensor& entry : entries_) {
    result.push_back(entry.latent);
    result.push_back(entry.log_step);
  }
  return result;
}

std::vector<at::Tensor> Latents::gradients() const {
  std::vector<at::Tensor> result;
  for (const LatentTensor& entry : entries_) {
    result.push_back(entry.idle ? at::Tensor() : entry.latent_gradient);
    result.push_back(entry.idle ? at::Tensor() : entry.step_gradient);
  }
  return result;
}

std::vector<std::string> Latents::value_names() const {
  std::vector<std::string> result;
  for (const LatentTensor& entry : entries_) {
    result.push_back(entry.name + "#latent");
    result.push_back(entry.name + "#log_step");
  }
  return result;
}

std::vector<at::Tensor> Latents::scales() const {
  std::vector<at::Tensor> result;
  for (const LatentTensor& entry : entries_) result.push_back(entry.scale());
  return result;
}

void Latents::choose(std::size_t index, double lambda, IntegerEncoder& encoder) {
  const at::NoGradGuard no_grad;
  LatentTensor& entry = entries_.at(index);
  const std::vector<std::int32_t> offsets = entry.row_offsets(entry.middle_step());
  if (!offsets.empty()) encoder.add({1, static_cast<std::int64_t>(offsets.size()), 0}, offsets);
  const at::Tensor scaled = entry.in_steps(entry.host_latent());
  entry.chosen.emplace(entry.coded(
      encoder.quantize_and_add(entry.grid, numbers_of(scaled, 0, scaled.numel()), {}, lambda)));
  entry.as_is = false;
}

bool Latents::has_chosen() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const LatentTensor& entry) { return entry.chosen.has_value(); });
}

void Latents::forget_chosen() {
  for (LatentTensor& entry : entries_) {
    entry.chosen.reset();
    entry.as_is = false;
  }
}

CodedValues Latents::form(std::size_t index) const {
  const LatentTensor& entry = entries_.at(index);
  return entry.chosen ? entry.chosen->form() : entry.coded(std::vector<std::int32_t>());
}

CodedValues Latents::coded(std::size_t index) const {
  const LatentTensor& entry = entries_.at(index);
  if (entry.chosen) return entry.chosen->unpacked();
  return entry.coded(entry.nearest(entry.steps()));
}

}  // namespace gbcompress
