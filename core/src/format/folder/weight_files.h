#pragma once
/// Which files of a folder are the weights of its model, and which are other copies of them.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gbcompress {

/// What names of files of weights end with, and what lies between such an end and ".json" in that
/// of an index.
inline constexpr std::string_view kSafetensorsEnd = ".safetensors", kPickledEnd = ".bin",
                                  kIndexMark = ".index.";

/// Files under one name: "unet" of unet.safetensors, of unet-00001-of-00002.safetensors and the
/// second one, or of unet.safetensors.index.json. A variant has its own: "unet.fp16" of
/// unet.fp16.safetensors and unet.safetensors.index.fp16.json.
struct WeightFiles {
  std::string name;
  std::string index;               ///< its file name, or ""
  std::vector<std::string> whole;  ///< at most one
  std::vector<std::string> parts;  ///< sorted
  std::size_t count = 0;           ///< how many parts there are to be
};

struct FolderWeights {
  WeightFiles chosen;
  /// Files of other names, where no name tells which are the model: all together are, if they
  /// have no tensor in common.
  std::vector<std::string> together;
  /// Other files of the same format, sorted: variants and copies.
  std::vector<std::string> others;
};

/// Whether a folder has files of weights, whatever their names. @throws Error(kIo)
bool holds_weights(const std::filesystem::path& folder);

/// Whether a file has the name of weights: "model.safetensors", "pytorch_model.bin", parts and
/// variants of them.
bool is_weights_name(std::string_view name);

/// By names alone. safetensors come before files of torch.save. Among those, where several names
/// are there: plain ones before their variants ("unet" before "unet.fp16"), then the one with an
/// index, the usual one ("model"), and the one whose files are numbered parts.
/// @throws Error(kNotFound) where there are none, naming subfolders that have some, or where parts
///         are missing; Error(kUsage) naming several that could be meant; Error(kIo)
FolderWeights weights_in(const std::filesystem::path& folder);

}  // namespace gbcompress
