#include "file_names.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

/// The longest of those that end alike first.
constexpr std::string_view kModelEnds[] = {".safetensors.index.json",
                                           ".bin.index.json",
                                           ".safetensors",
                                           ".pth.tar",
                                           ".onnx",
                                           ".gguf",
                                           ".pt.tar",
                                           ".gbz",
                                           ".npz",
                                           ".ckpt",
                                           ".pth",
                                           ".pt2",
                                           ".bin",
                                           ".pt"};
/// Files of tensors that this program neither reads nor writes.
constexpr std::string_view kForeignEnds[] = {".npy", ".ort", ".h5",      ".hdf5",  ".keras",
                                             ".pb",  ".pkl", ".msgpack", ".tflite"};

std::string_view end_in(std::string_view name, std::span<const std::string_view> ends) {
  for (const std::string_view end : ends)
    if (name.size() > end.size() && name.ends_with(end)) return end;
  return {};
}

}  // namespace

std::string model_name(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return fs::canonical(file, ignored).filename().string();
  std::string name = file.filename().string();
  name.resize(name.size() - end_in(name, kModelEnds).size());
  return name;
}

std::string model_suffix(const fs::path& file) {
  return std::string(end_in(file.filename().string(), kModelEnds));
}

bool names_a_model_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return !end_in(name, kModelEnds).empty() || !end_in(name, kForeignEnds).empty();
}

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

}  // namespace gbcompress::cli
