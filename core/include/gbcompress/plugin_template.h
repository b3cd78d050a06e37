#pragma once
/// The start of a new plugin project.

#include <filesystem>
#include <string>

#include "gbcompress/export.h"

namespace GBC_API gbcompress {

/// Writes a folder that builds as it stands: CMakeLists.txt, `<name>.cpp`, README.md. Its contract
/// test comes with the SDK.
/// @param name    1 to 64 of [a-z0-9_], beginning with a letter
/// @param folder  is created and must not exist yet; its parent must
/// @throws Error(kUsage) for the name; Error(kExists); Error(kIo), and then nothing stays behind
void write_plugin_template(const std::string& name, const std::filesystem::path& folder);

}  // namespace gbcompress
