#pragma once
/// The manifest of an installed plugin: `row.so.sha256` beside `row.so`, one line as sha256sum
/// writes it. The build and the installation of a plugin write it
/// (sdk/cmake/GbcompressPlugin.cmake).

#include <filesystem>
#include <string>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// "row.so.sha256" for "row.so".
std::filesystem::path digest_path(const std::filesystem::path& plugin);

/// Whether a plugin has a manifest that names these bytes.
/// @param digest  SHA-256 of the plugin's bytes, in hexadecimal
/// @return false where there is none
/// @throws Error(kPluginRefused) for one that names other bytes, or that cannot be read
bool digest_is_known(const std::filesystem::path& plugin, const std::string& digest);

}  // namespace gbcompress
