#pragma once
/// The distinct elements of a tensor, as bits.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/tensor_bundle.h"

namespace gbcompress {

struct PaletteEntry {
  std::uint64_t element = 0;  ///< its bytes as a little-endian number
  double value = 0;
  std::int64_t count = 0;
};

/// Ascending by value, -0 before 0; empty where a sample of a long tensor has more than an eighth
/// as many distinct elements as it has elements, or the tensor more than kMaxPalette.
/// @param tensor  of a real type
std::vector<PaletteEntry> palette_of(const TensorEntry& tensor);

/// Counts -0 as 0 where both are there.
void merge_zeros(std::vector<PaletteEntry>& entries);

/// The place of each element in the palette, less `offset`. What the palette lacks but for its
/// sign gets the place of 0.
std::vector<std::int32_t> palette_indices(std::span<const std::uint64_t> palette,
                                          const TensorEntry& tensor, int offset);

/// Whether bytes are those of a tensor of a real type, but for the signs of zeros.
bool is_same_but_zeros(std::span<const std::byte> bytes, const TensorEntry& tensor);

}  // namespace gbcompress
