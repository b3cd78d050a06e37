#pragma once
/// Folders as Hugging Face's libraries write them: shards of weights, and beside them the files of
/// configuration and tokenizer.

#include <filesystem>
#include <string_view>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// "*.safetensors.index.json" or "*.bin.index.json".
bool is_model_index(std::string_view name) noexcept;

/// Whether open_model_folder() finds weights in the folder. @throws Error(kIo)
bool holds_weights(const std::filesystem::path& folder);

/// A folder with, in this order, an index of safetensors shards, a `model.safetensors`, any
/// `*.safetensors`, an index of `.bin` shards, or a `pytorch_model.bin`; or an index itself, whose
/// files are looked for in its own folder. `carried` names a folder's files for CarriedCopies.
/// @throws as open_safetensors() and read_state_dict(); Error(kNotFound) for a folder without any,
///         or naming the shards that are missing; Error(kCorrupt) where an index and its files
///         disagree, it names a file by a path, or two files hold one tensor; Error(kUsage) for
///         several indices
TensorBundle open_model_folder(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace gbcompress
