#pragma once
/// Numbers as the bytes of a tensor's element type.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

/// @param dtype  F16, BF16 (rounded to nearest even), F32 or F64
/// @return row-major, little-endian
std::vector<std::byte> elements_of(std::span<const float> values, DType dtype);
/// The same into memory of as many elements.
void put_elements(std::span<const float> values, DType dtype, std::span<std::byte> bytes);
/// The float32 numbers of such a tensor; F64 is rounded to nearest even.
/// @param bytes  whole elements, not necessarily aligned
/// @param floats  as many as there are elements
void floats_of(std::span<const std::byte> bytes, DType dtype, std::span<float> floats);

/// The least and the largest value of an integer type, as far as they fit 63 bits.
std::pair<std::int64_t, std::int64_t> whole_range(DType dtype) noexcept;
/// The same of what an integer of such a tensor and its offset make.
std::pair<std::int64_t, std::int64_t> integer_range(DType dtype, bool nibbles) noexcept;
/// Whether elements of that type may be coded as nibbles.
constexpr bool has_nibbles(DType dtype) noexcept {
  return dtype > DType::kBool && dtype <= DType::kI64;
}

}  // namespace gbcompress
