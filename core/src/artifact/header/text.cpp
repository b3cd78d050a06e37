#include "artifact/header/text.h"

#include "base/utf8.h"

namespace gbcompress {

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

bool is_tensor_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > 512 || !is_utf8(text)) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_control(text, i)) return false;
  return true;
}

}  // namespace gbcompress
