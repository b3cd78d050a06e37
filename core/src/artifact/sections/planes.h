#pragma once
/// Floats without loss: exponents, which are alike, apart from mantissas, which are not
/// (docs/reference/artifact-format.md, "Planes").

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gbcompress {

/// @param raw   elements of `size` bytes
/// @param size  2, 4 or 8
std::vector<std::byte> pack_planes(std::span<const std::byte> raw, std::size_t size);

/// @param raw_bytes  as many as were packed
/// @throws Error(kCorrupt, kTruncated)
std::vector<std::byte> unpack_planes(std::span<const std::byte> stored, std::size_t raw_bytes,
                                     std::size_t size, const std::string& label);

}  // namespace gbcompress
