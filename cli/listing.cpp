#include "listing.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "table.h"

namespace gbcompress::cli {
using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string format_name(FileKind kind, const fs::path& file) {
  switch (kind) {
    case FileKind::kSafetensors:
      return "safetensors";
    case FileKind::kFolder:
      return "folder";
    case FileKind::kExported:
      return "exported";
    case FileKind::kArtifact:
      return "gbz";
    case FileKind::kTorchScript:
      return "torchscript";
    default:
      return is_gguf(file) ? "gguf" : is_onnx(file) ? "onnx" : "state_dict";
  }
}

void print_listing(const fs::path& file, const Listing& listing, bool json, Report& page) {
  const bool script = !listing.column.empty();
  const std::vector<Listed>& tensors = listing.tensors;
  std::int64_t elements = 0;
  ordered_json list = ordered_json::array();
  Table table(script ? 4 : 3);
  std::vector<std::string> head = {"name", "shape", "dtype", "bytes"};
  if (script) head.insert(head.begin() + 3, listing.column);
  table.row(head);
  for (const Listed& each : tensors) {
    elements += tensor_elements(each.shape);  // not above twice the bytes of all, which were there
    std::vector<std::string> row = {printable(each.name), shape_text(each.shape),
                                    std::string(dtype_name(each.dtype)), with_commas(each.bytes)};
    ordered_json entry = {{"name", each.name},
                          {"shape", each.shape},
                          {"dtype", dtype_name(each.dtype)},
                          {"bytes", each.bytes}};
    if (script) {
      row.insert(row.begin() + 3, printable(each.module));
      entry[listing.column] = each.module;
    }
    table.row(row);
    list.push_back(entry);
  }
  const std::int64_t bytes = listing.file_bytes;
  ordered_json result;
  if (json || page.wanted())
    result = {{"file", file.string()},     {"format", listing.format},     {"file_bytes", bytes},
              {"elements", elements},      {"metadata", listing.metadata}, {"notes", listing.notes},
              {"tensors", std::move(list)}};
  if (page.wanted()) page.write(result);
  if (json) {
    print_json(result);
    return;
  }
  std::cout << printable(file.string()) << ": " << listing.format << "\n";
  for (const auto& [key, value] : listing.metadata)
    std::cout << printable(key) << ": " << printable(value) << "\n";
  for (const std::string& note : listing.notes) std::cout << note << "\n";
  std::cout << "\n"
            << table.text() << "\n"
            << with_commas(static_cast<std::int64_t>(tensors.size())) << " tensors, "
            << with_commas(elements) << " elements, " << with_commas(bytes) << " bytes\n";
}

}  // namespace gbcompress::cli
