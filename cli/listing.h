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
  std::string name, module;
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
  bool modules = false;  ///< whether types of modules are known
};

/// "safetensors", "folder", "gbz", ...
std::string format_name(FileKind kind);
/// @param page  gets the same
void print_listing(const std::filesystem::path& file, const Listing& listing, bool json,
                   Report& page);

}  // namespace gbcompress::cli
