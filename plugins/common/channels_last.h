#pragma once
/// Maps with their channels side by side in memory.

#include <ATen/core/Tensor.h>

namespace gbcompress {

/// The same maps [rows, channels, height, width] in the layout that LibTorch pools several times as
/// fast in: a pixel's channels lie side by side. Anything of another rank as it is.
at::Tensor channels_last(const at::Tensor& maps);

}  // namespace gbcompress
