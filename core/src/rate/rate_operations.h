#pragma once
/// laplace_rate() and round_to_step() by operations of LibTorch: for tensors of a device.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace gbcompress {

/// Sums over a tensor, still on its device.
struct DeviceRateSums {
  at::Tensor bits;               ///< float64 [1]
  at::Tensor log_step_gradient;  ///< float64 [rows]
};

/// The formulas and the noise of laplace_rate(). Results differ from it by rounding.
/// @param latent         float32, contiguous
/// @param steps          one, or one for each of as many equal parts of the tensor; above 0
/// @param inverse_scale  as `latent`
/// @param gradient       as `latent`, in and out
/// @param count_bits     without it `bits` is 0
DeviceRateSums laplace_rate(const at::Tensor& latent, std::span<const float> steps,
                            const at::Tensor& inverse_scale, float weight, std::uint32_t key,
                            const at::Tensor& gradient, bool count_bits);

/// @return  float32, shape and device of `latent`: its values rounded to multiples of their steps,
///          halves to even, the same bits as on the host
at::Tensor rounded_to_step(const at::Tensor& latent, std::span<const float> steps);

}  // namespace gbcompress
