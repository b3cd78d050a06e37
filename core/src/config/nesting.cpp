#include <algorithm>

#include "config/toml_reader.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Where the string that starts at `at` ends: behind its closing quotes, or at the line's or the
/// text's end where it has none (the parser then says so).
std::size_t skip_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const std::string three(3, quote);
  const bool multiline = text.substr(at, 3) == three;
  std::size_t i = at + (multiline ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (escapes && text[i] == '\\') {
      ++i;
    } else if (multiline && text.substr(i, 3) == three) {
      i += 3;
      // Up to two quotes before the closing three belong to the string.
      for (int extra = 0; extra < 2 && i < text.size() && text[i] == quote; ++extra) ++i;
      return i;
    } else if (!multiline && text[i] == quote) {
      return i + 1;
    } else if (!multiline && text[i] == '\n') {
      return i;
    }
  }
  return text.size();
}

}  // namespace

void check_nesting(std::string_view text, const std::string& label) {
  int brackets = 0, dots = 0, line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = skip_string(text, i);
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    if (c == '\n') ++line;
    // A dotted key opens a table at every dot; numbers have one dot at most.
    dots = c == '.' ? dots + 1 : (c == '\n' || c == '=' || c == ',') ? 0 : dots;
    if (brackets + dots > kMaxConfigNesting)
      throw Error(Errc::kConfig, label + ":" + std::to_string(line) + ": nested deeper than " +
                                     std::to_string(kMaxConfigNesting) + " levels");
    ++i;
  }
}

}  // namespace gbcompress
