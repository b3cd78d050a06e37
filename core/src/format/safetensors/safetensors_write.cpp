#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/utf8.h"
#include "format/safetensors/safetensors.h"
#include "format/safetensors/safetensors_order.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// The reference writer's own order of dtypes; it writes higher ones first, so that wide elements
/// come out aligned.
int writer_rank(DType dtype) {
  static constexpr DType kAscending[] = {
      DType::kBool,       DType::kF4,     DType::kF6E2M3, DType::kF6E3M2, DType::kU8,
      DType::kI8,         DType::kF8E5M2, DType::kF8E4M3, DType::kF8E8M0, DType::kF8E4M3FNUZ,
      DType::kF8E5M2FNUZ, DType::kI16,    DType::kU16,    DType::kF16,    DType::kBF16,
      DType::kI32,        DType::kU32,    DType::kF32,    DType::kC64,    DType::kF64,
      DType::kI64,        DType::kU64};
  return static_cast<int>(std::find(std::begin(kAscending), std::end(kAscending), dtype) -
                          std::begin(kAscending));
}

void check_names(std::span<const TensorEntry> tensors, const std::string& label) {
  std::vector<std::string_view> names;
  for (const TensorEntry& tensor : tensors) {
    check_tensor_name(tensor.name, label);
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error(Errc::kUsage, label + ": two tensors are named " + printable(*twice));
}

/// Arrays and objects are written by hand here: destructors of nlohmann's allocate, and end the
/// process where there is no memory.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string metadata_json(const std::map<std::string, std::string>& metadata,
                          const std::string& label) {
  std::string json;
  for (const auto& [key, value] : metadata) {
    for (const std::string& text : {key, value})
      for (std::size_t i = 0, n = 0; i < text.size(); i += n)
        if ((n = utf8_length(text, i)) == 0)
          throw Error(Errc::kUsage, label + ": metadata " + printable(key) + " is not UTF-8");
    json.append(json.empty() ? "{" : ",").append(quoted(key)).append(":").append(quoted(value));
  }
  return json + "}";
}

/// The header, filled up to a multiple of 8 bytes, and the end of the data behind it.
struct FileHeader {
  std::string text;
  std::vector<std::int64_t> sizes;  ///< of each tensor
  std::int64_t end = 0;
};

/// @param order  of the tensors in the file
/// @param start  what comes before the entry of the first tensor, but for a comma
FileHeader make_header(std::span<const TensorEntry> tensors, const std::vector<std::size_t>& order,
                       std::string start, const std::string& label) {
  FileHeader header{std::move(start), std::vector<std::int64_t>(tensors.size())};
  for (const std::size_t i : order) {
    const TensorEntry& tensor = tensors[i];
    const std::string what = label + ": tensor " + printable(tensor.name);
    header.sizes[i] = tensor_bytes(tensor.dtype, tensor.shape, what);
    const std::int64_t begin = header.end;
    header.end = checked_add(begin, header.sizes[i], "the file");
    if (header.text.size() > 1) header.text += ",";
    header.text.append(quoted(tensor.name));
    header.text.append(":{\"dtype\":\"").append(dtype_name(tensor.dtype)).append("\",\"shape\":");
    header.text.append("[");
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      header.text.append(axis > 0 ? "," : "").append(std::to_string(tensor.shape[axis]));
    header.text.append("],\"data_offsets\":[");
    header.text.append(std::to_string(begin)).append(",");
    header.text.append(std::to_string(header.end)).append("]}");
  }
  header.text += "}";
  header.text.append((8 - header.text.size() % 8) % 8, ' ');
  if (header.text.size() > kMaxSafetensorsHeader)
    throw Error(Errc::kLimit, label + " would need a header above 100,000,000 bytes");
  return header;
}

/// The beginning of a header with metadata; without any, no entry of it.
std::string header_start(const std::map<std::string, std::string>& metadata,
                         const std::string& label) {
  return metadata.empty() ? "{" : "{\"__metadata__\":" + metadata_json(metadata, label);
}

std::vector<std::byte> with_length(const std::string& text) {
  std::vector<std::byte> start;
  append_number(start, static_cast<std::uint64_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  start.insert(start.end(), bytes.begin(), bytes.end());
  return start;
}

}  // namespace

std::vector<std::byte> safetensors_start(std::string start, std::span<const TensorEntry> tensors,
                                         const std::string& label) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return with_length(make_header(tensors, order, std::move(start), label).text);
}

std::vector<std::size_t> file_order(std::span<const TensorEntry> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int rank_a = writer_rank(tensors[a].dtype), rank_b = writer_rank(tensors[b].dtype);
    return rank_a != rank_b ? rank_a > rank_b : tensors[a].name < tensors[b].name;
  });
  return order;
}

std::int64_t write_safetensors(const std::filesystem::path& path,
                               std::span<const TensorEntry> tensors,
                               std::map<std::string, std::string> metadata, bool overwrite,
                               const TensorBytes& source) {
  return write_safetensors_pieces(
      path, tensors, std::move(metadata), overwrite,
      [&](std::size_t i, const auto& sink) { sink(source ? source(i) : tensors[i].bytes); });
}

std::int64_t write_safetensors_pieces(const std::filesystem::path& path,
                                      std::span<const TensorEntry> tensors,
                                      std::map<std::string, std::string> metadata, bool overwrite,
                                      const TensorPieces& source) {
  const std::string label = printable(path.string());
  check_names(tensors, label);
  const auto order = file_order(tensors);

  metadata.try_emplace("format", "pt");
  const FileHeader header = make_header(tensors, order, header_start(metadata, label), label);

  AtomicFile file(path, overwrite);
  const std::vector<std::byte> start = with_length(header.text);
  file.write(start);
  for (const std::size_t i : order) {
    std::uint64_t given = 0;
    source(i, [&](std::span<const std::byte> piece) {
      given += piece.size();
      if (given <= static_cast<std::uint64_t>(header.sizes[i])) file.write(piece);
    });
    if (given != static_cast<std::uint64_t>(header.sizes[i]))
      throw Error(Errc::kShapeMismatch, label + ": tensor " + printable(tensors[i].name) +
                                            " needs " + std::to_string(header.sizes[i]) +
                                            " bytes, " + std::to_string(given) + " were given");
  }
  file.commit();
  return static_cast<std::int64_t>(start.size()) + header.end;
}

std::int64_t safetensors_bytes(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata) {
  check_names(tensors, "tensors");
  const FileHeader header =
      make_header(tensors, file_order(tensors), header_start(metadata, "tensors"), "tensors");
  return static_cast<std::int64_t>(sizeof(std::uint64_t) + header.text.size()) + header.end;
}

}  // namespace gbcompress
