// What g-nets expect of the tensors, and what they are to learn from them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "rate/latents.h"

namespace gbcompress {

void Latents::add_prior(std::size_t index, bool deviations, double scale) {
  LatentTensor& entry = entries_.at(index);
  const auto zeros = [&] { return at::zeros_like(entry.latent); };
  Prior prior;
  prior.mean = zeros();
  prior.mean_gradient = zeros();
  if (deviations) {
    prior.log_deviation = zeros();
    prior.log_deviation_gradient = zeros();
  }
  prior.scale = scale;
  entry.prior = std::move(prior);
}

Latents::Prior* Latents::prior(std::size_t index) {
  LatentTensor& entry = entries_.at(index);
  return entry.prior ? &*entry.prior : nullptr;
}

std::span<const float> Latents::LatentTensor::residual(const at::Tensor& from, std::int64_t first,
                                                       std::int64_t count,
                                                       std::vector<float>& buffer) const {
  const auto n = static_cast<std::size_t>(count);
  const float* value = from.const_data_ptr<float>() + first;
  if (!prior) return {value, n};
  const float* mean = prior->mean.const_data_ptr<float>() + first;
  buffer.resize(n);
  for (std::size_t i = 0; i < n; ++i) buffer[i] = value[i] - mean[i];
  return buffer;
}

at::Tensor Latents::LatentTensor::residual() const {
  return prior ? host_latent() - prior->mean : host_latent();
}

std::vector<std::uint8_t> Latents::LatentTensor::classes() const {
  if (!prior || !prior->log_deviation.defined()) return {};
  const float* from = prior->log_deviation.const_data_ptr<float>();
  std::vector<std::uint8_t> result(static_cast<std::size_t>(latent.numel()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = prior_class(from[i]);
  return result;
}

void Latents::LatentTensor::prior_gradients(double weight) {
  if (!prior->log_deviation.defined()) return;
  // -log2 of the density of a Laplace distribution of scale b, log2(2 b) + |x| / (b ln 2), where
  // |x| is the mean magnitude of the residual with its noise, all in units of the step.
  const at::Tensor u = in_steps(residual()).abs_();
  const at::Tensor x = at::where(u.lt(0.5), u.square() + 0.25, u);
  const at::Tensor b = in_steps(prior->log_deviation.exp().mul_(prior->scale));
  at::mul_out(prior->log_deviation_gradient, 1 - x / b,
              at::scalar_tensor(weight * std::numbers::log2e, at::kFloat));
}

void Latents::fit_priors() {
  const at::NoGradGuard no_grad;
  for (LatentTensor& entry : entries_) {
    if (!entry.prior) continue;
    const double numbers = static_cast<double>(entry.latent.numel());
    const double variance = std::max(entry.spread * entry.spread, 1e-20);
    at::mul_out(entry.prior->mean_gradient, entry.residual(),
                at::scalar_tensor(-2 / (variance * numbers), at::kFloat));
    entry.prior_gradients(1 / numbers);
  }
}

}  // namespace gbcompress
