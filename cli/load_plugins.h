#pragma once

#include "command.h"
#include "gbcompress/registry.h"

namespace gbcompress::cli {

/// What --plugin names, then the installed ones, then the built-in architectures. Installed plugins
/// that are refused are reported on stderr.
void load_plugins(PluginHost& host, const Arguments& arguments);

}  // namespace gbcompress::cli
