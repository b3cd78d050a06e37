#include "base/glob.h"

#include <algorithm>

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

GlobSet::GlobSet(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (pattern.find('*') == std::string::npos)
      names_.insert(pattern);
    else
      globs_.push_back(pattern);
  }
}

bool GlobSet::matches(std::string_view text) const {
  return names_.contains(text) ||
         std::any_of(globs_.begin(), globs_.end(),
                     [&](const std::string& glob) { return matches_glob(glob, text); });
}

}  // namespace gbcompress
