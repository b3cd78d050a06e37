#pragma once
/// Well-formed UTF-8, by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <string_view>

namespace gbcompress {

/// Bytes of the well-formed sequence that starts at text[i], 0 where there is none. i < text.size()
inline std::size_t utf8_length(std::string_view text, std::size_t i) noexcept {
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[i + k]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2   ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size() - i) return 0;
  for (std::size_t k = 1; k < length; ++k)
    if ((at(k) & 0xc0) != 0x80) return 0;
  const unsigned char second = at(1);
  // Four leads leave part of their range to shorter forms, surrogates or beyond Unicode.
  if (lead == 0xe0 && second < 0xa0) return 0;
  if (lead == 0xed && second >= 0xa0) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;
  if (lead == 0xf4 && second >= 0x90) return 0;
  return length;
}

/// True for a control character (U+0000 to U+001F, U+007F to U+009F) at text[i].
inline bool is_control(std::string_view text, std::size_t i) noexcept {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c < 0x20 || c == 0x7f) return true;
  return c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
}

}  // namespace gbcompress
