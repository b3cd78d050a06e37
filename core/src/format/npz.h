#pragma once
/// NumPy's `.npz`: a zip archive with one `.npy` for each tensor, not compressed.

#include <filesystem>
#include <functional>
#include <span>

#include "gbcompress/tensors.h"

namespace gbcompress {

/// Writes one file, atomically, as write_safetensors() does; numpy.load() reads it.
/// @param tensors  in any order; the file orders them as a safetensors file does
/// @param source   called for each tensor's bytes in the file's order
/// @return bytes written
/// @throws Error(kUsage) for an element type that NumPy lacks; Error(kExists, kIo) as AtomicFile;
///         Error(kShapeMismatch) where bytes do not fit dtype and shape
std::int64_t write_npz(const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                       bool overwrite,
                       const std::function<std::span<const std::byte>(std::size_t index)>& source);

}  // namespace gbcompress
