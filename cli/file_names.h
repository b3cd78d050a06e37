#pragma once
/// Names of files: what a model's file is called without its suffix, and what a name says of a
/// file.

#include <filesystem>
#include <string>
#include <vector>

namespace gbcompress::cli {

/// "model" of "folder/model.safetensors", "model.pth.tar", "model.gbz" or
/// "model.safetensors.index.json"; the name of a folder; another name as it is.
std::string model_name(const std::filesystem::path& file);
/// What model_name() takes off: ".safetensors", ".pth.tar", "".
std::string model_suffix(const std::filesystem::path& file);
/// Whether a name ends as those of files of tensors do, whatever their format: "x.gbz", "x.pt".
bool names_a_model_file(const std::filesystem::path& path);
/// A word as a shell takes it.
std::string quoted(const std::string& word);
/// Words as a shell takes them, with blanks between them.
std::string quoted(const std::vector<std::string>& words);

}  // namespace gbcompress::cli
