#pragma once
/// Patterns of names.

#include <string_view>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Whether `text` fits `pattern`, in which '*' stands for any characters, none too.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace gbcompress
