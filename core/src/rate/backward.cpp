// Gradients of latents and steps, on the host or on the device where the tensor is.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "rate/laplace_rate.h"
#include "rate/latents.h"
#include "rate/pieces.h"
#include "rate/rate_operations.h"

namespace gbcompress {

double Latents::LatentTensor::add_host_rate(float weight, std::uint32_t key, bool count_bits) {
  const std::vector<float> sizes = steps();
  const at::Tensor scales = scale();
  const std::vector<Segment> segments = segments_of(latent.numel(), sizes.size());
  std::vector<RateSums> sums(segments.size());
  for_segments(segments, [&](std::size_t i, const Segment& segment) {
    const auto [first, count, group] = segment;
    sums[i] = laplace_rate(numbers_of(latent, first, count), sizes[group],
                           numbers_of(scales, first, count), weight, key,
                           static_cast<std::uint32_t>(first),
                           numbers_of(latent_gradient, first, count), count_bits);
  });
  double bits = 0;
  std::vector<double> gradients(sizes.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    bits += sums[i].bits;
    gradients[segments[i].group] += sums[i].log_step_gradient * step_speed;
  }
  std::copy(gradients.begin(), gradients.end(), step_gradient.data_ptr<float>());
  return bits;
}

void Latents::take_sums(const std::vector<std::size_t>& entries,
                        const std::vector<DeviceRateSums>& sums) {
  if (sums.empty()) return;
  std::vector<at::Tensor> parts;
  for (const DeviceRateSums& each : sums) {
    parts.push_back(each.bits);
    parts.push_back(each.log_step_gradient);
  }
  const at::Tensor all = at::cat(parts).to(at::kCPU);  // one copy: each waits for the device
  std::int64_t first = 0;
  for (const std::size_t e : entries) {
    LatentTensor& entry = entries_[e];
    bits_ += all[first].item<double>();
    const std::int64_t rows = entry.step_gradient.numel();
    entry.step_gradient.copy_(all.narrow(0, first + 1, rows).mul(step_speed_));
    first += 1 + rows;
  }
}

void Latents::backward(double weight, std::uint64_t step, bool count_bits) {
  const at::NoGradGuard no_grad;
  const auto of_a_bit = static_cast<float>(weight);
  if (count_bits) bits_ = 0;
  std::vector<std::size_t> on_devices;
  std::vector<DeviceRateSums> sums;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    LatentTensor& entry = entries_[e];
    entry.chosen.reset();
    entry.as_is = false;
    if (!entry.latent_gradient.defined()) entry.latent_gradient = at::empty_like(entry.latent);
    const at::Tensor gradient = entry.live.grad();
    entry.idle = !gradient.defined();
    if (entry.idle)
      entry.latent_gradient.zero_();
    else
      entry.latent_gradient.copy_(gradient);
    const std::uint32_t key = RandomStream(seed_, "rate", entry.name, step).bits(0);
    if (entry.on_host()) {
      bits_ += entry.add_host_rate(of_a_bit, key, count_bits);
    } else {
      on_devices.push_back(e);
      sums.push_back(laplace_rate(entry.latent, entry.steps(), entry.scale(), of_a_bit, key,
                                  entry.latent_gradient, count_bits));
    }
  }
  take_sums(on_devices, sums);
}

void Latents::expect(bool contexts) {
  const at::NoGradGuard no_grad;
  at::parallel_for(
      0, static_cast<std::int64_t>(entries_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          LatentTensor& entry = entries_[static_cast<std::size_t>(i)];
          if (contexts) {
            const std::vector<float> scales =
                expected_scales(entry.grid, entry.nearest(entry.steps()));
            entry.scale().copy_(at::tensor(scales).reciprocal_().view(entry.latent.sizes()));
          } else {
            // The most likely scale of a Laplace distribution is the mean magnitude.
            const double mean =
                sum_of(entry.in_steps(entry.host_latent()), [](double x) { return std::fabs(x); }) /
                static_cast<double>(entry.latent.numel());
            entry.scale().fill_(inverse_scale_of(mean));
          }
        }
      });
}

}  // namespace gbcompress
