#pragma once
/// Elements of tensors as a model's file has them, and back: integers of a quantized model stand
/// for real numbers.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/container.h"

namespace GBC_INTERNAL gbcompress {

/// Elements and bytes of a block of ggml's Q8_0: a float16 scale, then as many integers.
inline constexpr std::size_t kQ8Elements = 32, kQ8Bytes = 34;

/// (integer - zero) * scale, element by element.
/// @param integers  of affine.dtype
/// @return nothing where to_affine() does not give the same integers
std::optional<std::vector<float>> from_affine(std::span<const std::byte> integers,
                                              const Affine& affine);
/// value / scale, rounded to nearest with ties to even, plus zero, within the range of the type.
std::vector<std::byte> to_affine(std::span<const float> values, const Affine& affine);

/// @param blocks  whole blocks
/// @return nothing where a scale is infinite or NaN
std::optional<std::vector<float>> from_q8_0(std::span<const std::byte> blocks);
/// Each block's scale is its largest magnitude over 127 as a float16; integers are rounded to
/// nearest, ties away from zero.
/// @param values  of whole blocks
std::vector<std::byte> to_q8_0(std::span<const float> values);

/// What fills a hole.
/// @param elements  row-major and little-endian
/// @throws Error(kCorrupt) where they are not of the type that the encoding takes
std::vector<std::byte> payload_of(const Hole& hole, std::span<const std::byte> elements,
                                  DType dtype, const std::string& label);

}  // namespace gbcompress
