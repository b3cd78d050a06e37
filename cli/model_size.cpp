#include "model_size.h"

#include "gbcompress/tensors.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;

std::int64_t model_bytes(const fs::path& model, const OpenOptions& options) {
  if (sniff(model) == FileKind::kTorchScript)
    return static_cast<std::int64_t>(fs::file_size(model));
  return open_tensors(model, options).file_bytes;
}

}  // namespace gbcompress::cli
