#pragma once
/// The plan of a model file, for `inspect --plan`.

#include <filesystem>

#include "command.h"

namespace gbcompress::cli {

/// Prints the plan of every parameter, from names and shapes alone, and, above a --world of 1,
/// owners and bytes. Plugins are loaded first; settings of the target need the values and are not
/// looked at.
void show_plan(const Arguments& arguments, const std::filesystem::path& file);

}  // namespace gbcompress::cli
