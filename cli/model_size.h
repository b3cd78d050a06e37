#pragma once

#include <cstdint>
#include <filesystem>

namespace gbcompress::cli {

/// Bytes on disk of a model that open_model() takes: the file, or for a folder or an index all
/// files that hold its tensors, without the index. @throws Error as open_safetensors()
std::int64_t model_bytes(const std::filesystem::path& model);

}  // namespace gbcompress::cli
