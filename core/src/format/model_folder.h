#pragma once
/// Folders as Hugging Face's libraries write them: shards of weights, and beside them the files of
/// configuration and tokenizer.

#include <filesystem>
#include <string_view>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// "*.safetensors.index.json" or "*.bin.index.json", also of a variant:
/// "*.safetensors.index.fp16.json".
bool is_model_index(std::string_view name);

/// A folder with the weights that weights_in() chooses, or an index, whose files are looked for in
/// its own folder. `carried` names a folder's files for CarriedCopies, a note the files of weights
/// that are not read.
/// @throws as open_safetensors(), read_state_dict() and weights_in(); Error(kNotFound) naming the
///         shards that are missing; Error(kCorrupt) where an index and its files disagree, it names
///         a file by a path, or two parts hold one tensor; Error(kUsage) for files without a common
///         name that hold one tensor
TensorBundle open_model_folder(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace gbcompress
