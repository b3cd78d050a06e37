#pragma once
/// Loops that do nothing but keep one unit busy.

#include <cstddef>
#include <cstdint>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Independent multiply-adds in registers, on the instruction set that the fused kernel uses.
/// @param result  receives a sum, so that nothing is optimized away
/// @return lanes that were multiplied and added
std::int64_t fma_loop(std::int64_t iterations, float& result);

}  // namespace gbcompress
