#pragma once
/// The one form in which a plugin is refused.

#include <filesystem>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress {

/// @param label  names the plugin, printable already
/// @throws Error(kPluginRefused) "plugin LABEL WHY"
[[noreturn]] inline void refuse_plugin(const std::string& label, const std::string& why) {
  throw Error(Errc::kPluginRefused, "plugin " + label + " " + why);
}
[[noreturn]] inline void refuse_plugin(const std::filesystem::path& file, const std::string& why) {
  refuse_plugin(printable(file.string()), why);
}

}  // namespace gbcompress
