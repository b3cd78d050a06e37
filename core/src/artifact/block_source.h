#pragma once
/// The tensor of a base that blocks of a quantized type were made of.

#include <optional>

#include "artifact/sections/requantized.h"
#include "gbcompress/artifact_tensor.h"
#include "gbcompress/base_model.h"

namespace gbcompress {

/// The base's tensor of the same name that has as many real numbers as the blocks have weights, in
/// the same shape. Nothing for what are no blocks, also without a base. [thread-safe]
std::optional<BlockSource> block_source(const BaseModel* base, const TensorEntry& tensor);

/// The numbers of some blocks.
/// @param first, count  blocks of the tensor
BaseValues base_values(const BaseModel& base, const BlockSource& source, const TensorEntry& tensor,
                       std::size_t first, std::size_t count);

}  // namespace gbcompress
