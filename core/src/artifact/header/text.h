#pragma once
/// What may be a name in an artifact.

#include <string_view>

namespace gbcompress {

/// Well-formed UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text) noexcept;
/// UTF-8 of 1 to 512 bytes without control characters (U+0000 to U+001F, U+007F to U+009F).
bool is_tensor_name(std::string_view text) noexcept;

}  // namespace gbcompress
