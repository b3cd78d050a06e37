#pragma once
/// The order in which a safetensors file has its tensors, for callers that make them ahead.

#include <cstddef>
#include <span>
#include <vector>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// Indices of `tensors` in the file's order: by dtype, then name.
std::vector<std::size_t> file_order(std::span<const TensorEntry> tensors);

}  // namespace gbcompress
