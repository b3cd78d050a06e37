#pragma once
/// The format of a file of tensors that is to be written, told by its name.

#include <filesystem>

namespace gbcompress {

enum class TensorFormat { kSafetensors, kNpz, kOnnx, kGguf, kTorch };

/// `.npz`, `.onnx`, `.gguf`, else safetensors.
/// @param torch  whether a file of PyTorch can be written again: ".pt", ".bin" are kTorch then
/// @throws Error(kUsage) for a name that ends as files of another format do: ".pt", ".gbz"
TensorFormat format_for(const std::filesystem::path& path, bool torch = false);

}  // namespace gbcompress
