#pragma once
/// Fits integers to the target size of a file, after training.

#include <cstdint>
#include <functional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Ends with a call of `bytes_at` whose file has at most `max_bytes` bytes, at the least rate
/// weight that was found; where no file is that small, with the smallest.
/// @param bytes_at  chooses all integers under a rate weight, in squared steps a bit
/// @return bytes of that file
std::int64_t fit_size(std::int64_t max_bytes, const std::function<std::int64_t(double)>& bytes_at);

}  // namespace gbcompress
