#pragma once
/// What compress() refuses before it begins.

#include <cstdint>

#include "gbcompress/compress.h"

namespace gbcompress {

/// No file is smaller: header, digests, one tensor.
inline constexpr std::int64_t kSmallestFile = 100;

/// Whether parameters are trained on data, with what their bits cost.
bool trains(const CompressOptions& options, const Data* data);

/// @throws Error(kUsage) for a target out of range, or a loss or target that needs what is not
/// there
void check_options(const CompressOptions& options, const Model& model, const Data* data,
                   const Model* teacher, std::int64_t input_bytes);

}  // namespace gbcompress
