#pragma once
/// Blocks of ggml's quantized types from real numbers, as ggml's reference quantization without an
/// importance matrix makes them (docs/reference/requantized.md). The same bits on every processor.

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/gguf/block_fields.h"

namespace gbcompress::gguf {

/// Whether sums of products are rounded once, as compilers with fused instructions make them.
enum class Rounding : std::uint8_t { kTwice, kOnce };

/// @param values  of whole blocks
/// @param blocks  their bytes
void reference_blocks(const BlockLayout& layout, Rounding rounding, std::span<const float> values,
                      std::span<std::byte> blocks);

/// Sets the quants of blocks of an even type to those nearest to the values under the scales and
/// offsets that are there. Where a scale is 0, quants have the symbol 0.
void set_nearest_quants(const BlockLayout& layout, std::span<const float> values,
                        std::span<std::byte> blocks);
/// Sets the bits of the quants to 0.
void clear_quants(const BlockLayout& layout, std::span<std::byte> blocks);

}  // namespace gbcompress::gguf
