#pragma once
/// Numbers on the command line.

#include <charconv>
#include <sstream>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress::cli {

/// A whole text as a number within [low, high]. @throws Error(kUsage) naming the option
template <typename Number>
Number parse_number(const std::string& text, const std::string& option, Number low, Number high) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= low && value <= high)) {
    std::ostringstream message;
    message << option << " must be a number from " << low << " to " << high << ", not "
            << printable(text);
    throw Error(Errc::kUsage, message.str());
  }
  return value;
}

}  // namespace gbcompress::cli
