#pragma once

#include "command.h"
#include "gbcompress/options.h"

namespace gbcompress::cli {

/// Everything that `compress` was asked: defaults < file < environment < --set < flags, and the
/// target that holds where none is given. @throws Error(kUsage, kConfig)
Settings compress_settings(const Arguments& arguments);

}  // namespace gbcompress::cli
