#pragma once
/// GGUF files as bundles of tensors, with a container that makes the file of them again.

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/internal.h"
#include "format/tensor_hint.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

/// The tensors, and the container as a tensor of that name. Tensors of types that DType lacks
/// (Q8_0, Q4_K) are U8 of as many bytes as a row takes; of types that find_type() does not know, U8
/// of one dimension. Empty tensors stay in the container.
/// @param bytes       must outlive the result
/// @param requantize  Q8_0 as F32, see OpenOptions
/// @throws Error(kUnsupported) for a file without tensors; as parse()
TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        bool requantize = false);

/// @throws also as MappedFile
TensorBundle open_model(const std::filesystem::path& path, bool requantize = false);

/// type_name() of each tensor, by its name. @throws as parse() and MappedFile
std::map<std::string, std::string> open_types(const std::filesystem::path& path);

/// Of tensors that are no weights, whatever their shape.
TensorHints hints(const TensorBundle& bundle);

/// Whether a file's first bytes are those of a GGUF file.
bool looks_like_model(std::span<const std::byte> bytes) noexcept;
/// The same of a file, or its name ends in `.gguf` and its bytes are of no other format that is
/// told. @throws Error(kIo) as MappedFile
bool is_model(const std::filesystem::path& path);

}  // namespace gguf
}  // namespace gbcompress
