#pragma once
/// GGUF files as bundles of tensors, with a container that makes the file of them again.

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/tensor_hint.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

/// The tensors, and the container as a tensor of that name. Tensors of types that DType lacks
/// (Q8_0, Q4_K) are U8 of as many bytes as a row takes; of types that find_type() does not know, U8
/// of one dimension. Large ones are in pieces (pieces_of()). Empty tensors stay in the container.
/// Tensors of a file whose general.type is no model are exact.
/// @param bytes       must outlive the result
/// @param requantize  Q8_0 as F32, see OpenOptions
/// @throws as parse()
TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        bool requantize = false);

/// Of the first part of a split model with the others beside it, all of them.
/// @throws also as MappedFile; Error(kCorrupt) for parts that contradict their names, or hold a
///         tensor twice
TensorBundle open_model(const std::filesystem::path& path, bool requantize = false);

/// type_name() of each tensor of open_model(), by its name. @throws as open_model()
std::map<std::string, std::string> open_types(const std::filesystem::path& path);
/// The files that open_model() reads. @throws as open_model()
std::vector<std::filesystem::path> open_parts(const std::filesystem::path& path);

/// Of tensors that are no weights, whatever their shape.
TensorHints hints(const TensorBundle& bundle);

/// Whether a file's first bytes are those of a GGUF file.
bool looks_like_model(std::span<const std::byte> bytes) noexcept;
/// The same of a file, or its name ends in `.gguf` and its bytes are of no other format that is
/// told. @throws Error(kIo) as MappedFile
bool is_model(const std::filesystem::path& path);

}  // namespace gguf
}  // namespace gbcompress
