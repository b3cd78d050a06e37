#pragma once
/// Packed bytes of headers and sections.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// Blocks of a quantized type of ggml.
struct PackedBlocks {
  /// ggml's number; 0, or of a type that is not coded by fields: no blocks
  std::uint32_t type = 0;
  int threads = 1;  ///< the bytes do not depend on them
};

/// Floats of at least this many bytes are packed stripe by stripe, on all threads.
inline constexpr std::size_t kLargeTensor = std::size_t{4} << 20;

/// The smallest packing, or of large floats one that is as fast as memory. Same bytes, same result.
/// @param element_bytes  size of one element; shuffled planes are tried above 1
/// @param floats         elements are floats of 2, 4 or 8 bytes
std::pair<std::vector<std::byte>, Packing> pack(std::span<const std::byte> raw,
                                                std::int64_t element_bytes, bool floats = false,
                                                PackedBlocks blocks = {});

/// Bytes that pack() takes for them, about, without what takes it long.
/// @param type  of ggml's blocks; else 0
std::size_t estimate_packed(std::span<const std::byte> raw, std::int64_t element_bytes, bool floats,
                            std::uint32_t type);

/// Whether floats are packed as planes without trying zstd, which would take long.
bool are_planes(std::span<const std::byte> raw, std::int64_t element_bytes);

/// Whether a sample of large content is no smaller packed: no bytes are to be saved.
bool is_noise(std::span<const std::byte> raw, std::int64_t element_bytes);

/// The writer of a large tensor of floats that are planes; null for one that pack() is for.
std::shared_ptr<const PlanesWriter> planes_of(std::span<const std::byte> raw,
                                              std::int64_t element_bytes);

/// A sample of elements: so many pieces at equal distances. @param count  elements of each, of at
/// least as many for all together
std::vector<std::byte> pieces_of(std::span<const std::byte> raw, std::size_t element_bytes,
                                 std::size_t pieces, std::size_t count);

/// One zstd frame, made quickly.
std::vector<std::byte> compress_fast(std::span<const std::byte> raw);

/// @param raw_bytes  what the result must have; the caller has checked it against its limits
/// @param label      for messages
/// @throws Error(kCorrupt) where the packed bytes are anything but one frame of that size
std::vector<std::byte> unpack(std::span<const std::byte> stored, Packing packing,
                              std::int64_t raw_bytes, std::int64_t element_bytes,
                              const std::string& label);

}  // namespace gbcompress
