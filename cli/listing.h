#pragma once
/// What `inspect` prints of a model file.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gbcompress/tensors.h"
#include "report.h"

namespace gbcompress::cli {

/// One tensor of a model file, whatever the format.
struct Listed {
  std::string name;
  std::string module;  ///< what Listing::column says
  DType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
};

/// A model file's tensors.
struct Listing {
  std::string format;  ///< "safetensors", "state_dict", "torchscript", "folder", "exported"
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;  ///< what opening it left out or changed
  std::int64_t file_bytes = 0;
  std::vector<Listed> tensors;
  std::string column;  ///< what is known beside type and shape: "module", "consumers"; or ""
};

/// "safetensors", "folder", "gbz", "onnx", "gguf", ...
std::string format_name(FileKind kind, const std::filesystem::path& file);
/// @param page  gets the same
void print_listing(const std::filesystem::path& file, const Listing& listing, bool json,
                   Report& page);

}  // namespace gbcompress::cli
