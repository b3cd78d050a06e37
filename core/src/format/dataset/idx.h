#pragma once
/// IDX, the format of MNIST: two zero bytes, an element type, a number of dimensions, the
/// dimensions as big-endian 32-bit numbers, the elements.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr std::int64_t kMaxIdxBytes = std::int64_t{1} << 32;

struct IdxArray {
  std::vector<std::int64_t> shape;  ///< 1 to 4 dimensions; [images, rows, columns] or [labels]
  std::vector<std::byte> values;    ///< row-major, each 0 to 255
};

/// Reads an array of unsigned bytes, plain or gzipped.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty or short file;
///         Error(kUnsupported) for other element types; Error(kLimit) above 4 dimensions or 4 GiB;
///         Error(kCorrupt) where it is not IDX, is damaged, or holds more than it declares
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace gbcompress
