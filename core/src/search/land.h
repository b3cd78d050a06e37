#pragma once
/// The last choice of integers, for a file of a target size.

#include <cstdint>
#include <functional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Ends with a call of `bytes_at` whose file has at most `wanted` bytes, at the least rate weight
/// that was found; where no file is that small, with the smallest.
/// @param bytes_at  chooses all integers under a rate weight, in squared steps a bit
/// @return bytes of that file
std::int64_t land(std::int64_t wanted, const std::function<std::int64_t(double)>& bytes_at);

}  // namespace gbcompress
