#include "base/glob.h"

namespace gbcompress {

bool matches_glob(std::string_view pattern, std::string_view text) {
  // Greedy with one point to return to: the last '*' and how much of the text it has swallowed.
  std::size_t p = 0, t = 0, star = std::string_view::npos, swallowed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      swallowed = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++swallowed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace gbcompress
