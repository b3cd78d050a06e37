#pragma once
/// Bytes that are not alike often, as the exponents of floats: rANS with a table for each chunk
/// (docs/reference/codec-bytes.md), some hundred million a second and core.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gbcompress::codec {

std::vector<std::byte> encode_bytes(std::span<const std::byte> bytes);

/// About what encode_bytes() makes of them, in bytes.
double expected_size(std::span<const std::byte> bytes);

/// @param bytes  as many as were encoded
/// @throws Error(kCorrupt, kTruncated) for what no encoder writes
void decode_bytes(std::span<const std::byte> stream, std::span<std::byte> bytes);

}  // namespace gbcompress::codec
