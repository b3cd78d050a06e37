#pragma once
/// What files of tensors have beside these (docs/reference/original-files.md), as a `.gbz` keeps it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

struct PackedOriginals {
  std::vector<std::byte> bytes = {};
  std::int64_t raw = 0;  ///< bytes of them unpacked; 0: nothing
};

/// @param bytes  the encoded list of files. [thread-safe]
PackedOriginals pack_originals(std::span<const std::byte> bytes);

}  // namespace gbcompress
