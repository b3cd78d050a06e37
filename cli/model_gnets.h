#pragma once
/// The g-nets that a model file would get, for `inspect --plan`.

#include <filesystem>

#include "command.h"

namespace gbcompress::cli {

/// Prints the g-nets of every parameter, from names and shapes alone, and, above a --world of 1,
/// owners and bytes. Plugins are loaded first; settings of the target need the values and are not
/// looked at.
void show_gnets(const Arguments& arguments, const std::filesystem::path& file);

}  // namespace gbcompress::cli
