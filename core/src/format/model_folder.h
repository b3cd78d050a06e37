#pragma once
/// Folders as Hugging Face's libraries write them: shards of weights, and beside them the files of
/// configuration and tokenizer.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "format/tensor_bundle.h"

namespace gbcompress {

inline constexpr std::uint64_t kMaxCarriedFile = 64 << 20;    ///< bytes
inline constexpr std::uint64_t kMaxCarriedFiles = 256 << 20;  ///< bytes, all together

/// "*.safetensors.index.json" or "*.bin.index.json".
bool is_model_index(std::string_view name) noexcept;

/// A folder with, in this order, an index of safetensors shards, a `model.safetensors`, any
/// `*.safetensors`, an index of `.bin` shards, or a `pytorch_model.bin`; or an index itself, whose
/// files are looked for in its own folder. `carried` names a folder's files for copy_carried().
/// @throws as open_safetensors() and read_state_dict(); Error(kNotFound) for a folder without any,
///         or naming the shards that are missing; Error(kCorrupt) where an index and its files
///         disagree, it names a file by a path, or two files hold one tensor; Error(kUsage) for
///         several indices
TensorBundle open_model_folder(const std::filesystem::path& path, const OpenOptions& options = {});

/// Throws what copy_carried() would throw for a file that it is to write.
void check_copy(const std::filesystem::path& to, bool overwrite);

/// Copies files under their own names into a folder that exists, each atomically. Symbolic links
/// there are never written through.
/// @throws Error(kExists) for a file that is there, unless `overwrite`; Error(kIo) for a link in
/// its
///         place, and as AtomicFile; Error(kLimit) for a file above kMaxCarriedFile
void copy_carried(std::span<const std::filesystem::path> carried,
                  const std::filesystem::path& folder, bool overwrite);

}  // namespace gbcompress
