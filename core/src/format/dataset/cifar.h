#pragma once
/// CIFAR-10's binary version: records of one label byte and 3,072 pixel bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr std::size_t kCifarPixels = 3072;         ///< an image: [3, 32, 32], red first
inline constexpr std::size_t kMaxCifarRecords = 100'000;  ///< CIFAR-10 has 60,000

struct CifarRecords {
  std::vector<std::uint8_t> labels;  ///< [n], each 0 to 9
  std::vector<std::byte> pixels;     ///< [n, 3, 32, 32], each 0 to 255
};

/// Reads one file, plain or gzipped.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty file or a last
///         record that is not whole; Error(kLimit) above 100,000 records; Error(kCorrupt) for a
///         label above 9 or damaged gzip data
CifarRecords read_cifar10(const std::filesystem::path& path);

}  // namespace gbcompress
