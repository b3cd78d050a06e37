#pragma once
/// The change of a tensor since a base, exactly (docs/reference/exact-deltas.md): one section of
/// bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress::codec {

/// How elements lie: neighbors in a row and in a column changed alike.
struct ChangeGrid {
  std::int64_t rows = 1, cols = 1;  ///< at least 1 each; the tensor has rows * cols elements
};
/// The first of at least two dimensions, and all others together.
ChangeGrid change_grid(std::span<const std::int64_t> shape) noexcept;

enum class ChangeForm : std::uint8_t {
  kSparse = 1,  ///< which elements changed, by gaps, and by how much
  kDense = 2,   ///< how much each element changed
};

/// The section of the smaller form. Without a comparison sparse where less than a twentieth of the
/// elements changed, of large tensors dense where a fifth did. [thread-safe]
/// @param base, now  elements, little-endian: grid.rows * grid.cols of them each, at least one
/// @param form       that form instead
/// @throws Error(kUsage) for a type without changes and sizes that do not fit
std::vector<std::byte> encode_change(DType dtype, ChangeGrid grid, std::span<const std::byte> base,
                                     std::span<const std::byte> now,
                                     std::optional<ChangeForm> form = {});

/// Turns the base's elements into those of the section, in place; what a sparse section leaves
/// alone is only read. After an error some elements may have changed. [thread-safe]
/// @throws Error(kCorrupt, kTruncated) for what no encoder writes; Error(kUsage) as encode_change()
void apply_change(DType dtype, ChangeGrid grid, std::span<const std::byte> section,
                  std::span<std::byte> elements);

}  // namespace gbcompress::codec
