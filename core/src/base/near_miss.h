#pragma once
/// "Did you mean ...?"

#include <string>
#include <string_view>
#include <vector>

namespace gbcompress {

/// The candidate with the smallest edit distance to `word`, or "" where none is near (more than
/// half of its letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// "; did you mean X?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gbcompress
