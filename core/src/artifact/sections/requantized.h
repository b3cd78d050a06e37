#pragma once
/// Blocks of a quantized type that are made of a tensor of the base
/// (docs/reference/requantized.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

/// The real numbers that blocks are made of.
struct BaseValues {
  std::span<const std::byte> bytes;  ///< as many elements as the blocks have weights
  DType dtype = DType::kF32;         ///< F32, F16 or BF16
};

/// The smallest section that unpack_requantized() makes these blocks of.
/// @param type  of gguf::find_block_layout(), with evenly spaced quants; else nothing
std::optional<std::vector<std::byte>> pack_requantized(std::span<const std::byte> blocks,
                                                       std::uint32_t type, const BaseValues& base,
                                                       int threads);

/// @param type       of gguf::find_block_layout()
/// @param raw_bytes  of the blocks; the caller has checked it against its limits
/// @throws Error(kCorrupt, kTruncated, kUnsupported)
std::vector<std::byte> unpack_requantized(std::span<const std::byte> section, std::uint32_t type,
                                          const BaseValues& base, std::size_t raw_bytes,
                                          const std::string& label, int threads);

/// How a section makes blocks.
enum class RequantizedForm : std::uint8_t {
  kReference,  ///< as the reference quantization does
  kScales,     ///< with scales and offsets of their own
  kCorrected,  ///< with the scales and offsets of the reference, some of which are changed
};

}  // namespace gbcompress
