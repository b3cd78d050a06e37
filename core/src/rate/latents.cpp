#include "rate/latents.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "artifact/integers/transform.h"
#include "base/random.h"
#include "gbcompress/error.h"
#include "rate/laplace_rate.h"
#include "rate/pieces.h"

namespace gbcompress {
namespace {

/// The first step, as a part of the values' deviation; where all values are alike, by itself.
constexpr double kFirstStep = 0.2, kStepWithoutSpread = 0.02;
/// The expected scale before anything is known, in steps.
constexpr double kFirstScale = 3;
constexpr double kLeastScale = 0.02, kLargestScale = 1000;

double deviation(const at::Tensor& dense) {
  const double n = static_cast<double>(dense.numel());
  if (n < 2) return 0;
  const double mean = sum_of(dense, [](double x) { return x; }) / n;
  return std::sqrt(sum_of(dense, [&](double x) { return (x - mean) * (x - mean); }) / (n - 1));
}

}  // namespace

void Latents::add(std::string name, at::Tensor live, std::optional<IntegerGrid> grid,
                  bool row_steps) {
  const at::NoGradGuard no_grad;
  Entry entry;
  entry.name = std::move(name);
  entry.step_speed = step_speed_;
  entry.live = live;
  entry.latent = live.detach().to(at::kCPU, at::kFloat).clone(at::MemoryFormat::Contiguous);
  entry.spread = deviation(entry.latent);
  entry.grid = grid ? *grid : default_grid(live.sizes().vec());
  entry.log_step = at::zeros({row_steps ? entry.grid.rows : 1}, at::kFloat);
  entry.set_step(entry.spread > 0 ? kFirstStep * entry.spread : kStepWithoutSpread);
  entry.step_gradient = at::zeros_like(entry.log_step);
  entries_.push_back(std::move(entry));
}

void Latents::share(std::size_t index, const at::Tensor& values) {
  Entry& entry = entries_.at(index);
  if (values.scalar_type() == at::kFloat && values.is_contiguous() &&
      values.sizes() == entry.latent.sizes())
    entry.latent = values;
}

void Latents::take(std::size_t index) {
  const at::NoGradGuard no_grad;
  Entry& entry = entries_.at(index);
  entry.latent.copy_(entry.live.detach());
  entry.chosen.reset();
  entry.as_is = false;
}

void Latents::take_as_is(std::size_t index, std::optional<int> step) {
  take(index);
  Entry& entry = entries_.at(index);
  if (step) entry.set_step(static_cast<double>(step_size(*step)));
  entry.as_is = true;
}

void Latents::take(std::size_t index, CodedValues values) {
  const at::NoGradGuard no_grad;
  Entry& entry = entries_.at(index);
  const std::vector<float> numbers = tensor_floats(values, entry.latent.sizes().vec());
  if (static_cast<std::int64_t>(numbers.size()) != entry.latent.numel())
    throw Error(Errc::kShapeMismatch, "a different number of integers than " + entry.name + " has");
  std::copy(numbers.begin(), numbers.end(), entry.latent.data_ptr<float>());
  if (entry.prior) entry.latent.add_(entry.prior->mean);
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

void Latents::Entry::set_step(double size) { log_step.fill_(std::log(size) / step_speed); }

std::vector<int> Latents::Entry::step_indices() const {
  std::vector<int> indices;
  for (const float x : numbers_of(log_step, 0, log_step.numel()))
    indices.push_back(nearest_step(std::exp(static_cast<float>(step_speed) * x)));
  return indices;
}

std::vector<float> Latents::Entry::steps() const {
  std::vector<float> sizes;
  for (const int k : step_indices()) sizes.push_back(step_size(k));
  return sizes;
}

at::Tensor Latents::Entry::in_steps(const at::Tensor& numbers) const {
  const at::Tensor inverse = at::tensor(steps()).reciprocal_().unsqueeze(1);
  return (numbers.reshape({inverse.size(0), -1}) * inverse).view(latent.sizes());
}

at::Tensor Latents::Entry::scale() const {
  if (!inverse_scale.defined()) inverse_scale = at::full_like(latent, 1 / kFirstScale);
  return inverse_scale;
}

std::vector<std::int32_t> Latents::Entry::nearest(std::span<const float> sizes,
                                                  std::vector<std::int32_t> integers) const {
  integers.resize(static_cast<std::size_t>(latent.numel()));
  for_segments(segments_of(latent.numel(), sizes.size()), [&](std::size_t, const Segment& segment) {
    std::vector<float> buffer;
    const std::span<const float> from = residual(segment.first, segment.count, buffer);
    const float inverse = 1 / sizes[segment.group];
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float scaled = from[i] * inverse;
      integers[static_cast<std::size_t>(segment.first) + i] = static_cast<std::int32_t>(
          std::fabs(scaled) < 0x1p22f ? whole(scaled) : std::clamp(scaled, -0x1p30f, 0x1p30f));
    }
  });
  return integers;
}

int Latents::Entry::middle_step() const {
  std::vector<int> sorted = step_indices();
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<std::int32_t> Latents::Entry::row_offsets(int middle) const {
  std::vector<std::int32_t> offsets;
  bool any = false;
  for (const int k : step_indices()) {
    offsets.push_back(k - middle);
    any = any || k != middle;
  }
  return any ? offsets : std::vector<std::int32_t>();
}

CodedValues Latents::Entry::coded(std::vector<std::int32_t> integers) const {
  const int middle = middle_step();
  return {grid, std::move(integers), middle, row_offsets(middle)};
}

void Latents::predict() {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    if (entry.as_is) continue;
    const bool direct = entry.live.scalar_type() == at::kFloat && entry.live.is_contiguous() &&
                        entry.live.device().is_cpu();
    at::Tensor to = direct ? entry.live.detach() : at::empty_like(entry.latent);
    float* data = to.data_ptr<float>();
    if (entry.chosen) {
      const std::vector<float> values =
          tensor_floats(entry.chosen->unpacked(), entry.latent.sizes().vec());
      std::copy(values.begin(), values.end(), data);
    } else {
      const std::vector<float> steps = entry.steps();
      for_segments(segments_of(entry.latent.numel(), steps.size()),
                   [&](std::size_t, const Segment& segment) {
                     std::vector<float> buffer;
                     round_to_step(entry.residual(segment.first, segment.count, buffer),
                                   steps[segment.group], data + segment.first);
                   });
    }
    if (entry.prior) to.add_(entry.prior->mean);
    if (direct)
      entry.live.unsafeGetTensorImpl()->bump_version();  // autograd must notice the write
    else
      entry.live.copy_(to);
  }
}

void Latents::set_gradient(std::size_t entry, const at::Tensor& gradient) {
  entries_[entry].live.mutable_grad() = gradient;
}

void Latents::backward(double weight, std::uint64_t step, bool count_bits) {
  const at::NoGradGuard no_grad;
  if (count_bits) bits_ = 0;
  for (Entry& entry : entries_) {
    entry.chosen.reset();
    entry.as_is = false;
    if (!entry.latent_gradient.defined()) entry.latent_gradient = at::empty_like(entry.latent);
    const at::Tensor gradient = entry.live.grad();
    entry.idle = !gradient.defined();
    if (entry.idle)
      entry.latent_gradient.zero_();
    else
      entry.latent_gradient.copy_(gradient);
    const std::vector<float> steps = entry.steps();
    const at::Tensor scale = entry.scale();
    const std::uint32_t key = RandomStream(seed_, "rate", entry.name, step).bits(0);
    const std::vector<Segment> segments = segments_of(entry.latent.numel(), steps.size());
    std::vector<RateSums> sums(segments.size());
    for_segments(segments, [&](std::size_t i, const Segment& segment) {
      const auto [first, count, group] = segment;
      std::vector<float> buffer;
      sums[i] = laplace_rate(entry.residual(first, count, buffer), steps[group],
                             numbers_of(scale, first, count), static_cast<float>(weight), key,
                             static_cast<std::uint32_t>(first),
                             numbers_of(entry.latent_gradient, first, count), count_bits);
    });
    std::vector<double> gradients(steps.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      bits_ += sums[i].bits;
      gradients[segments[i].group] += sums[i].log_step_gradient * step_speed_;
    }
    std::copy(gradients.begin(), gradients.end(), entry.step_gradient.data_ptr<float>());
    if (!entry.prior) continue;
    entry.prior_gradients(weight);
    // Of a number that is rounded off its mean, the loss does not feel the mean: only the rate
    // does, and there it is worth what the number itself is, the other way round.
    if (entry.idle)
      entry.prior->mean_gradient.zero_();
    else
      at::sub_out(entry.prior->mean_gradient, gradient.to(at::kCPU, at::kFloat),
                  entry.latent_gradient);
  }
}

void Latents::expect(bool contexts) {
  const at::NoGradGuard no_grad;
  at::parallel_for(
      0, static_cast<std::int64_t>(entries_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Entry& entry = entries_[static_cast<std::size_t>(i)];
          if (contexts) {
            const std::vector<float> scales =
                expected_scales(entry.grid, entry.nearest(entry.steps()), entry.classes());
            float* inverse = entry.scale().data_ptr<float>();
            for (std::size_t j = 0; j < scales.size(); ++j) inverse[j] = 1 / scales[j];
          } else {
            // The most likely scale of a Laplace distribution is the mean magnitude.
            const double mean =
                sum_of(entry.in_steps(entry.residual()), [](double x) { return std::fabs(x); }) /
                static_cast<double>(entry.latent.numel());
            entry.scale().fill_(1 / std::clamp(mean, kLeastScale, kLargestScale));
          }
        }
      });
}

double Latents::Entry::least_step() const {
  const at::Tensor numbers = residual();
  const double largest = numbers.numel() > 0 ? numbers.abs().max().item<double>() : 0;
  return std::max(largest / kMaxMagnitude, static_cast<double>(step_size(kMinStep)));
}

void Latents::scale_steps(double factor) {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    at::Tensor scaled = entry.log_step + std::log(factor) / step_speed_;
    // A step is rounded to one that files hold, half an index down at the most.
    const double least = std::log(entry.least_step()) + std::log(2.0) / 16;
    if (factor < 1) scaled = at::maximum(scaled, entry.log_step.clamp_max(least / step_speed_));
    entry.log_step.copy_(scaled);
    entry.scale().mul_(factor).clamp_(1 / kLargestScale, 1 / kLeastScale);
  }
}

void Latents::decay(double factor) {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_)
    if (!entry.idle) entry.latent.mul_(factor);
}

std::vector<at::Tensor> Latents::values() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.latent);
    result.push_back(entry.log_step);
  }
  return result;
}

std::vector<at::Tensor> Latents::gradients() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.idle ? at::Tensor() : entry.latent_gradient);
    result.push_back(entry.idle ? at::Tensor() : entry.step_gradient);
  }
  return result;
}

std::vector<std::string> Latents::value_names() const {
  std::vector<std::string> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.name + "#latent");
    result.push_back(entry.name + "#log_step");
  }
  return result;
}

std::vector<at::Tensor> Latents::scales() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) result.push_back(entry.scale());
  return result;
}

void Latents::choose(std::size_t index, double lambda, IntegerEncoder& encoder) {
  const at::NoGradGuard no_grad;
  Entry& entry = entries_.at(index);
  const std::vector<std::int32_t> offsets = entry.row_offsets(entry.middle_step());
  if (!offsets.empty()) encoder.add({1, static_cast<std::int64_t>(offsets.size()), 0}, offsets);
  const at::Tensor scaled = entry.in_steps(entry.residual());
  entry.chosen.emplace(entry.coded(encoder.quantize_and_add(
      entry.grid, numbers_of(scaled, 0, scaled.numel()), {}, lambda, entry.classes())));
  entry.as_is = false;
}

bool Latents::has_chosen() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.chosen.has_value(); });
}

void Latents::forget_chosen() {
  for (Entry& entry : entries_) {
    entry.chosen.reset();
    entry.as_is = false;
  }
}

CodedValues Latents::form(std::size_t index) const {
  const Entry& entry = entries_.at(index);
  return entry.chosen ? entry.chosen->form() : entry.coded(std::vector<std::int32_t>());
}

CodedValues Latents::coded(std::size_t index) const {
  const Entry& entry = entries_.at(index);
  if (entry.chosen) return entry.chosen->unpacked();
  return entry.coded(entry.nearest(entry.steps()));
}

}  // namespace gbcompress
