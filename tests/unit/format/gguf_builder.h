#pragma once
/// Small GGUF files, field by field, from the specification alone
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "unit/format/zip_builder.h"

namespace gbcompress::testing::gguf {

inline std::string u32(std::uint32_t value) { return le(value); }
inline std::string u64(std::uint64_t value) { return le(value); }
inline std::string text(const std::string& content) { return u64(content.size()) + content; }

/// Metadata. @param type  4: uint32, 8: text, 9: array, ...
inline std::string key(const std::string& name, std::uint32_t type, const std::string& value) {
  return text(name) + u32(type) + value;
}
inline std::string array(std::uint32_t type, std::uint64_t count, const std::string& values) {
  return u32(type) + u64(count) + values;
}

struct Tensor {
  std::string name;
  std::uint32_t type = 0;            ///< ggml_type
  std::vector<std::uint64_t> sides;  ///< the contiguous one first
  std::string data;
};

inline std::string info(const Tensor& tensor, std::uint64_t offset) {
  std::string bytes = text(tensor.name) + u32(static_cast<std::uint32_t>(tensor.sides.size()));
  for (const std::uint64_t side : tensor.sides) bytes += u64(side);
  return bytes + u32(tensor.type) + u64(offset);
}

inline std::string padded(std::string bytes, std::size_t alignment, char with = '\0') {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, with);
  return bytes;
}

inline std::string head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(keys);
}

/// @param alignment  of the offsets; the caller names it in the metadata unless it is 32
inline std::string file(const std::vector<std::string>& keys, const std::vector<Tensor>& tensors,
                        std::size_t alignment = 32, std::uint32_t version = 3) {
  std::string bytes = head(tensors.size(), keys.size(), version), data;
  for (const std::string& each : keys) bytes += each;
  for (const Tensor& tensor : tensors) {
    bytes += info(tensor, data.size());
    data = padded(data + tensor.data, alignment, 'p');
  }
  return padded(std::move(bytes), alignment) + data;
}

}  // namespace gbcompress::testing::gguf
