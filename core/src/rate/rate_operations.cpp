#include "rate/rate_operations.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>
#include <vector>

namespace gbcompress {
namespace {

/// Numbers that are computed at once: they need about a hundred bytes each.
constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;
constexpr std::int64_t kLow32 = 0xFFFFFFFF;

/// The numbers of a tensor that have the same step are a row.
at::Tensor as_rows(const at::Tensor& tensor, std::size_t rows) {
  return tensor.view({static_cast<std::int64_t>(rows), -1});
}

/// [rows, 1] on the device of `like`.
at::Tensor column(std::span<const float> numbers, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<float>(numbers.data(), numbers.size()))
      .unsqueeze(1)
      .to(like.device());
}

/// Calls body(first row, rows, first column, columns) for the parts of a matrix.
template <typename Body>
void for_parts(std::int64_t rows, std::int64_t columns, const Body& body) {
  const std::int64_t width = std::min(columns, kAtOnce),
                     height = std::max<std::int64_t>(1, kAtOnce / width);
  for (std::int64_t r = 0; r < rows; r += height)
    for (std::int64_t c = 0; c < columns; c += width)
      body(r, std::min(height, rows - r), c, std::min(width, columns - c));
}

/// The low 32 bits of x * factor, where x is below 2^32; a factor of 2^31 and more is written as
/// the negative number that is the same modulo 2^32, so that nothing overflows.
at::Tensor times(const at::Tensor& x, std::int64_t factor) {
  return x.mul(factor < 0x80000000 ? factor : factor - 0x100000000).bitwise_and_(kLow32);
}

/// The noise of laplace_rate(), [height, width], of the numbers whose indices these are.
at::Tensor noise(const at::Tensor& index, std::uint32_t key) {
  at::Tensor x = times(index.bitwise_and(kLow32), 0x9E3779B9);
  x.add_(static_cast<std::int64_t>(key)).bitwise_and_(kLow32);
  x = times(x.bitwise_xor_(x.bitwise_right_shift(16)), 0x7FEB352D);
  x = times(x.bitwise_xor_(x.bitwise_right_shift(15)), 0x846CA68B);
  x.bitwise_xor_(x.bitwise_right_shift(16));
  return x.bitwise_right_shift_(8).to(at::kFloat).mul_(0x1p-24).sub_(0.5);
}

struct Part {
  at::Tensor u, scale, noisy;  ///< in units of the step

  /// d bits / d u, and the bits where they are asked for.
  at::Tensor slope(at::Tensor* bits) const;
};

at::Tensor Part::slope(at::Tensor* bits) const {
  const at::Tensor x = noisy.abs(), kx = scale * x, half_k = scale * 0.5;
  const at::Tensor e = half_k.neg().exp_(), outer = scale * std::numbers::log2e_v<float>;
  // In the middle: -log2(1 - e cosh(k x)).
  const at::Tensor grow = at::minimum(kx, half_k).exp_(), shrink = grow.reciprocal();
  const at::Tensor cosh = (grow + shrink).mul_(0.5), sinh = (grow - shrink).mul_(0.5);
  const at::Tensor p = (1 - e * cosh).clamp_min_(1e-9);
  const at::Tensor inside = x.lt(0.5);
  if (bits) {
    // Beyond the middle: k x log2 e - log2 sinh(k / 2).
    const at::Tensor sinh_half = (e.reciprocal() - e).mul_(0.5);
    *bits =
        at::where(inside, p.log2().neg_(), kx * std::numbers::log2e_v<float> - sinh_half.log2());
  }
  return at::where(inside, (e * sinh).mul_(outer).div_(p), outer).copysign_(noisy);
}

}  // namespace

DeviceRateSums laplace_rate(const at::Tensor& latent, std::span<const float> steps,
                            const at::Tensor& inverse_scale, float weight, std::uint32_t key,
                            const at::Tensor& gradient, bool count_bits) {
  const at::Tensor values = as_rows(latent, steps.size()),
                   scales = as_rows(inverse_scale, steps.size()),
                   gradients = as_rows(gradient, steps.size());
  const at::Tensor step = column(steps, latent), inverse = step.reciprocal();
  const at::TensorOptions doubles = latent.options().dtype(at::kDouble);
  DeviceRateSums sums{at::zeros({1}, doubles), at::zeros({values.size(0)}, doubles)};
  for_parts(
      values.size(0), values.size(1),
      [&](std::int64_t r, std::int64_t height, std::int64_t c, std::int64_t width) {
        const auto part = [&](const at::Tensor& all) {
          return all.narrow(0, r, height).narrow(1, c, width);
        };
        const auto of_rows = [&](const at::Tensor& all) { return all.narrow(0, r, height); };
        const at::TensorOptions integers = latent.options().dtype(at::kLong);
        const at::Tensor index =
            at::arange(r, r + height, integers).mul_(values.size(1)).unsqueeze(1) +
            at::arange(c, c + width, integers);
        Part each{part(values) * of_rows(inverse), part(scales), {}};
        each.noisy = each.u + noise(index, key);
        at::Tensor bits;
        const at::Tensor slope = each.slope(count_bits ? &bits : nullptr);
        if (count_bits) sums.bits.add_(bits.sum(at::kDouble));
        at::Tensor to = part(gradients);
        const at::Tensor task =
            (to * (each.u.round() - each.u)).sum(1, /*keepdim=*/false, at::kDouble);
        const at::Tensor rate = (slope * each.u).sum(1, /*keepdim=*/false, at::kDouble);
        of_rows(sums.log_step_gradient).add_(task * of_rows(step).squeeze(1)).sub_(rate, weight);
        to.add_(slope * of_rows(inverse), weight);
      });
  return sums;
}

at::Tensor rounded_to_step(const at::Tensor& latent, std::span<const float> steps) {
  std::vector<float> inverse;
  for (const float step : steps) inverse.push_back(1 / step);
  return as_rows(latent, steps.size())
      .mul(column(inverse, latent))
      .round_()
      .mul_(column(steps, latent))
      .view(latent.sizes());
}

}  // namespace gbcompress
