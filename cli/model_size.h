#pragma once

#include <cstdint>
#include <filesystem>

#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// Bytes on disk of a model that open_model() takes: the file, for a folder or an index all files
/// that hold its tensors, without the index; of a checkpoint the bytes of the model's tensors.
/// @throws Error as open_tensors()
std::int64_t model_bytes(const std::filesystem::path& model, const OpenOptions& options = {});

}  // namespace gbcompress::cli
