#pragma once
/// Shards of PyTorch whose values are quantized expand to shards of safetensors.

#include <optional>

#include "artifact/originals.h"

namespace gbcompress {

/// A safetensors file for each of the bundle's files that has tensors, with those, and an index of
/// them where the bundle has one. Names as Transformers has them:
/// "pytorch_model-00001-of-00002.bin" becomes "model-00001-of-00002.safetensors".
/// @return nothing for a bundle without TensorBundle::contents, where a tensor lies in no file, and
///         where two files would get one name
std::optional<OriginalFiles> safetensors_shards(const TensorBundle& bundle);

}  // namespace gbcompress
