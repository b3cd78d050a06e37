#pragma once
/// The bytes of a plugin file, bounded.

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// @throws Error(kNotFound, kIo); Error(kPluginRefused) above 256 MiB
std::vector<std::byte> read_plugin(const std::filesystem::path& file);

}  // namespace gbcompress
