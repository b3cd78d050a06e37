#pragma once
/// Random shift and horizontal flip of images.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace gbcompress {

/// Shifts each image by up to `shift` pixels along both axes, edges repeated, and flips every
/// second one on average. The change of an image depends on `random` and its index alone.
/// @param images   [n, channels, height, width] float32, contiguous
/// @param indices  n of them
/// @throws Error(kUsage) for tensors that are not images
at::Tensor augmented(const at::Tensor& images, const std::vector<std::int64_t>& indices,
                     std::int64_t shift, bool flip, const RandomStream& random);

}  // namespace gbcompress
