#include "format/tensor_hint.h"

#include "format/container.h"
#include "format/gguf/open.h"
#include "format/onnx/open.h"

namespace gbcompress {

TensorHints hints_of(const TensorBundle& bundle) {
  if (!bundle.find(kContainerName) || bundle.files.empty()) return {};
  const std::filesystem::path& path = bundle.files.front();
  if (gguf::is_model(path)) return gguf::hints(bundle);
  return onnx::is_model(path) ? onnx::open_hints(path) : TensorHints{};
}

}  // namespace gbcompress
