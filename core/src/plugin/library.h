#pragma once
/// A plugin's library in this process. Behind this header, so that Boost.DLL appears in one file.

#include <filesystem>

namespace gbcompress {

struct Plugin;

/// Loads the file (all symbols bound now, none of them visible to others) and calls its entry. The
/// library stays loaded until the process ends, also where this throws.
/// @throws Error(kPluginRefused): does not link, has no entry, the entry throws or returns null
const Plugin& open_plugin_library(const std::filesystem::path& file);

}  // namespace gbcompress
