#pragma once
#include <string>

#include "gbcompress/registry.h"
#include "report.h"

namespace gbcompress::cli {

/// Of the LibTorch that is loaded.
std::string running_torch();

/// Beside the program's own version, what decides about the bytes of a file: "versions" of a page.
void tell_versions(Report& page, const PluginHost& host);

}  // namespace gbcompress::cli
