#include "balance.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

namespace gbcompress {

std::vector<int> balance(const std::vector<double>& costs, int world) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<double> load(static_cast<std::size_t>(world), 0);
  std::vector<int> owner(costs.size(), 0);
  for (const std::size_t piece : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[piece] = static_cast<int>(least - load.begin());
    *least += costs[piece];
  }
  return owner;
}

std::vector<double> of_first_rank(Group& group, const std::vector<double>& mine) {
  std::string bytes(mine.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());
  const std::vector<std::string> all = group.all_gather(bytes);
  std::vector<double> first(mine.size());
  if (all.at(0).size() == bytes.size()) std::memcpy(first.data(), all[0].data(), bytes.size());
  return first;
}

void tell(const std::string& pieces, const std::vector<std::string>& names,
          const std::vector<int>& owner, const std::vector<double>& seconds, double expected,
          int world) {
  std::string text = pieces + " by rank:";
  char number[120];
  for (std::size_t i = 0; i < owner.size(); ++i) {
    std::snprintf(number, sizeof number, " (%.3g s)", seconds[i]);
    text += i == 0 ? " " : ", ";
    text += names[i] + " ";
    text += owner[i] == kEverybody ? "all" : std::to_string(owner[i]);
    text += number;
  }
  const double alone = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::snprintf(number, sizeof number, "; %.3g s a batch alone, %.3g s expected of %d ranks", alone,
                expected, world);
  log_line(text + number);
}

}  // namespace gbcompress
