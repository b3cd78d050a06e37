#pragma once
/// "Did you mean ...?"

#include <string>
#include <string_view>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// The candidate with the smallest edit distance to `word`, or "" where none is near (more than
/// half of its letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The `count` candidates with the smallest edit distances, the nearest first.
std::vector<std::string> nearest_few(std::string_view word,
                                     const std::vector<std::string>& candidates, std::size_t count);
/// "; did you mean X?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gbcompress
