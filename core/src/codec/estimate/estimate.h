#pragma once
/// About what integers take in a file.

#include <cstdint>
#include <span>

#include "gbcompress/codec.h"

namespace gbcompress::codec {

/// Bits of integers under scales of their rows and columns and tables that adapt, about what a file
/// of the profile lanes spends on them. No processor's choice depends on it but an encoder's.
/// @param values  [rows, cols]
double estimate_bits(const IntegerGrid& grid, std::span<const std::int32_t> values);

}  // namespace gbcompress::codec
