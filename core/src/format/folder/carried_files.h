#pragma once
/// Bounds of what goes along with the weights of a folder: find_carried() and CarriedCopies
/// (tensors.h).

#include <cstdint>

#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"

namespace gbcompress {

inline constexpr std::uint64_t kMaxCarriedFile = 64 << 20;    ///< bytes
inline constexpr std::uint64_t kMaxCarriedBytes = 256 << 20;  ///< all together
inline constexpr std::size_t kMaxCarriedCount = 1000;
inline constexpr std::size_t kMaxCarriedDepth = 4;  ///< of subfolders

}  // namespace gbcompress
