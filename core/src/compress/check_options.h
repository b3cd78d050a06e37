#pragma once
/// What compress() refuses before it begins.

#include <cstdint>

#include "gbcompress/compress.h"

namespace gbcompress {

/// Whether parameters are trained on data, with what their bits cost.
bool trains(const CompressOptions& options, const Data* data);

/// Of all tensors that are not tied.
std::int64_t elements_of(const Model& model);
/// What targets are relative to. @param input_bytes  of the model's file
InputSize size_of(const Model& model, std::int64_t input_bytes);

/// @throws Error(kUsage) for a target out of range, or a loss or target that needs what is not
/// there
void check_options(const CompressOptions& options, const Model& model, const Data* data,
                   const Model* teacher, std::int64_t input_bytes);

}  // namespace gbcompress
