#pragma once
/// What a call of compress() was given.

#include <cstdint>

#include "gbcompress/compress.h"

namespace gbcompress {

/// Nothing of it changes.
struct CompressRequest {
  Model& model;
  const std::int64_t input_bytes;  ///< of the model's file
  const Data* const data;          ///< or null
  Model* const teacher;            ///< or null
  const Registry& registry;
  const ProgressSink& progress;
};

}  // namespace gbcompress
