#pragma once
/// What a GGUF file says: its metadata, and where the elements of its tensors are
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

inline constexpr std::uint64_t kMaxKeys = 65'536, kMaxAlignment = std::uint64_t{1} << 20;
/// Arrays inside of arrays.
inline constexpr int kMaxArrays = 8;

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;  ///< ggml_type; find_type() may not know it
  std::vector<std::int64_t>
      shape;                 ///< row-major, the longest stride first: the reverse of the file's
  std::uint64_t offset = 0;  ///< from the beginning of the file
  /// Bytes. Of a type that find_type() does not know: up to the next tensor or the end of the file.
  std::uint64_t size = 0;
};

struct GgufFile {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  /// For people: numbers, short texts, and of an array how many values it has; control characters
  /// escaped.
  std::map<std::string, std::string> metadata;
  std::string type;                 ///< general.type; "": a model
  std::uint64_t part = 0;           ///< split.no, from 0
  std::uint64_t parts = 0;          ///< split.count: files that the model is in; 0 and 1: this one
  std::vector<GgufTensor> tensors;  ///< in the order of their places
};

/// @throws Error(kTruncated) for an empty file and one that is cut off; Error(kUnsupported) for
///         another version and for big-endian files; Error(kCorrupt) for damage, overlapping
///         tensors, and offsets or rows that do not fit alignment or blocks; Error(kLimit)
GgufFile parse(std::span<const std::byte> bytes, const std::string& label);

}  // namespace gguf
}  // namespace gbcompress
