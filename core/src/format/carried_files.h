#pragma once
/// Bounds of what goes along with the weights of a folder: find_carried() and CarriedCopies
/// (tensors.h).

#include <cstdint>

#include "gbcompress/tensors.h"

namespace gbcompress {

inline constexpr std::uint64_t kMaxCarriedFile = 64 << 20;    ///< bytes
inline constexpr std::uint64_t kMaxCarriedFiles = 256 << 20;  ///< bytes, all together

}  // namespace gbcompress
