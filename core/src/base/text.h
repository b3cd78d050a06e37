#pragma once
/// Text of unknown origin, made fit for a terminal.

#include <string>
#include <string_view>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// A name made safe to print: control characters and bytes outside UTF-8's printable range become
/// `\xNN`.
std::string printable(std::string_view text);

}  // namespace gbcompress
