#include "base/near_miss.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kLongestWord = 256;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongestWord);
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row.back();
}

bool is_near(std::string_view word, std::size_t distance) {
  return distance < word.size() && distance <= std::max<std::size_t>(1, word.size() / 3);
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (!is_near(word, distance) || distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::vector<std::string> nearest_few(std::string_view word,
                                     const std::vector<std::string>& candidates,
                                     std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> by_distance;
  by_distance.reserve(candidates.size());
  for (const std::string& candidate : candidates)
    by_distance.emplace_back(edit_distance(word, candidate), candidate);
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(count, by_distance.size()); ++i)
    names.push_back(by_distance[i].second);
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace gbcompress
