#pragma once
/// Files of safetensors that expand from tensors of other files: one of all, or shards.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/originals.h"

namespace gbcompress {

/// A safetensors file as decode_to_file() writes it, whose header follows from its tensors. Their
/// bytes are not looked at. @param chosen  indices of those that it has
OriginalFile safetensors_file(std::span<const TensorEntry> tensors,
                              const std::vector<std::size_t>& chosen, std::string name);

/// A safetensors file for each of the bundle's files that has tensors, with those, and an index of
/// them where the bundle has one. Names as Transformers has them:
/// "pytorch_model-00001-of-00002.bin" becomes "model-00001-of-00002.safetensors".
/// @return nothing for a bundle without TensorBundle::contents, where a tensor lies in no file, and
///         where two files would get one name
std::optional<OriginalFiles> safetensors_shards(const TensorBundle& bundle);

}  // namespace gbcompress
