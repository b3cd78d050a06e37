#pragma once
/// Pictures a little different each time they are seen.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace gbcompress {

/// Moves each picture by up to `shift` pixels along both axes, edges repeated, and mirrors every
/// second one on average. What happens to a picture depends on `random` and its index alone.
/// @param images   [n, channels, height, width] float32, contiguous
/// @param indices  n of them
/// @throws Error(kUsage) for what are not pictures
at::Tensor augmented(const at::Tensor& images, const std::vector<std::int64_t>& indices,
                     std::int64_t shift, bool mirror, const RandomStream& random);

}  // namespace gbcompress
