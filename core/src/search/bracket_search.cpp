#include "search/bracket_search.h"

#include <algorithm>
#include <cmath>

namespace gbcompress {

bool BracketSearch::narrow() const {
  const double low = std::min(*state_.holds, *state_.fails);
  const double high = std::max(*state_.holds, *state_.fails);
  if (rule_.scale == Scale::kInteger) return high - low <= 1;
  return (rule_.scale == Scale::kLog ? high / low : high - low) <= rule_.resolution;
}

double BracketSearch::middle() const {
  const double a = *state_.holds, b = *state_.fails;
  if (rule_.scale == Scale::kLog) return std::sqrt(a * b);
  const double mean = (a + b) / 2;
  return rule_.scale == Scale::kInteger ? std::floor(mean) : mean;
}

double BracketSearch::inside(double guess) const {
  const double low = std::min(*state_.holds, *state_.fails);
  const double high = std::max(*state_.holds, *state_.fails);
  if (rule_.scale == Scale::kInteger) return std::clamp(std::round(guess), low + 1, high - 1);
  if (rule_.scale == Scale::kLog) {
    const double margin = std::sqrt(std::max(rule_.resolution, 1.0));
    return std::clamp(guess, low * margin, high / margin);
  }
  return std::clamp(guess, low + rule_.resolution / 2, high - rule_.resolution / 2);
}

std::optional<double> BracketSearch::next(std::optional<double> guess) const {
  if (state_.holds && state_.fails) {
    if (state_.cuts >= rule_.cuts || narrow()) return {};
    const double at = guess && !std::isnan(*guess) ? inside(*guess) : middle();
    // Between neighboring numbers there is none.
    if (at == *state_.holds || at == *state_.fails) return {};
    return at;
  }
  if (!state_.last) return state_.first;
  if (state_.holds || state_.strides >= rule_.strides || *state_.last >= rule_.limit) return {};
  return *state_.last * rule_.stride;
}

void BracketSearch::tried(double x, bool holds) {
  const bool cut = state_.holds && state_.fails;
  if (cut)
    ++state_.cuts;
  else if (state_.last)
    ++state_.strides;
  state_.last = x;
  (holds ? state_.holds : state_.fails) = x;
  ++tries_;
}

}  // namespace gbcompress
