#include "model_size.h"

#include "format/tensor_bundle.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;

std::int64_t model_bytes(const fs::path& model) {
  if (fs::is_directory(model) || model.filename().string().ends_with(".safetensors.index.json"))
    return open_tensors(model).file_bytes;
  return static_cast<std::int64_t>(fs::file_size(model));
}

}  // namespace gbcompress::cli
