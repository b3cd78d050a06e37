#pragma once
/// Sizes as they are written: seven bits a byte, the lowest first, the highest bit set in all but
/// the last.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_reader.h"

namespace gbcompress {

inline void append_varint(std::vector<std::byte>& bytes, std::int64_t value) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 128));
  bytes.push_back(static_cast<std::byte>(value));
}

/// @throws Error(kTruncated, kCorrupt)
inline std::int64_t read_varint(ByteReader& reader, const std::string& label) {
  std::int64_t value = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    const auto byte = reader.read<unsigned char>();
    value |= std::int64_t{byte & 127} << shift;
    if (byte >= 128) continue;
    if (byte == 0 && shift > 0) break;
    return value;
  }
  throw Error(Errc::kCorrupt, label + " has a size that is not written as sizes are");
}

}  // namespace gbcompress
