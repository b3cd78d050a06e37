#pragma once
/// ONNX files as bundles of tensors, with a container that makes the files of them again.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "base/internal.h"
#include "format/container.h"
#include "format/tensor_hint.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// Constants that take fewer bytes stay in the container, but for floats of at least kLeastFloats.
inline constexpr std::uint64_t kLeastBytes = 64, kLeastFloats = 16;

/// The bytes of a file beside the model, named by its relative path.
using ExternalFile = std::function<std::span<const std::byte>(const std::string& location)>;

/// The tensors with hints, and the container as a tensor of that name.
/// @param bytes   must outlive the result
/// @param requantize  as OpenOptions
/// @throws Error(kUnsupported) for a model without tensors, or a path of external data that leaves
/// the folder;
///         Error(kTruncated) for external data that is too short; as parse() and `external`
TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        const ExternalFile& external, bool requantize = false);

/// What the graph says about them.
TensorHints read_hints(std::span<const std::byte> bytes, const std::string& label,
                       const ExternalFile& external);

/// @throws also as MappedFile
TensorBundle open_model(const std::filesystem::path& path, bool requantize = false);
/// read_hints() of a file. @throws also as MappedFile
TensorHints open_hints(const std::filesystem::path& path);

/// Whether a file is an ONNX model, by its name or its first bytes. @throws Error(kIo) as
/// MappedFile
bool is_model(const std::filesystem::path& path);

/// Whether a file's first bytes are those of an ONNX model, as far as protocol buffers tell.
bool looks_like_model(std::span<const std::byte> bytes) noexcept;

}  // namespace onnx
}  // namespace gbcompress
