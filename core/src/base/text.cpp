#include "gbcompress/error.h"

#include "base/utf8.h"

namespace gbcompress {

std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = is_control(text, i) ? 0 : utf8_length(text, i);
    if (length > 0) {
      result.append(text.substr(i, length));
      i += length - 1;
    } else {
      result += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return result;
}

}  // namespace gbcompress
