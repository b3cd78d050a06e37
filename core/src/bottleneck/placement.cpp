#include "bottleneck/placement.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <queue>

namespace gbcompress {
namespace {

double exchange_seconds(std::int64_t bytes, const PlacementCase& c) {
  return 2.0 * static_cast<double>(bytes) * (c.world - 1) / c.world / c.bytes_per_second;
}

}  // namespace

BankLoad load_of(const BankShape& shape, std::int64_t gnets) {
  auto units = static_cast<double>(shape.rank);
  for (const std::int64_t width : shape.hidden) units += static_cast<double>(width);
  return {gnets, units * static_cast<double>(shape.positions())};
}

std::vector<std::vector<std::int64_t>> share_out(const std::vector<BankLoad>& banks, int world) {
  std::vector<std::size_t> order(banks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return banks[a].cost > banks[b].cost; });
  using Load = std::pair<double, int>;  // what a rank has to do, and which rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int r = 0; r < world; ++r) loads.push({0, r});
  std::vector<std::vector<std::int64_t>> result(
      banks.size(), std::vector<std::int64_t>(static_cast<std::size_t>(world) + 1, 0));
  for (const std::size_t b : order) {
    for (std::int64_t g = 0; g < banks[b].gnets; ++g) {
      auto [load, rank] = loads.top();
      loads.pop();
      ++result[b][static_cast<std::size_t>(rank) + 1];
      loads.push({load + banks[b].cost, rank});
    }
    std::partial_sum(result[b].begin(), result[b].end(), result[b].begin());
  }
  return result;
}

double owner_seconds(const PlacementCase& c) {
  return c.compute_seconds / c.world + exchange_seconds(c.weight_bytes, c);
}

double replicated_seconds(const PlacementCase& c) {
  return c.compute_seconds + exchange_seconds(c.theta_bytes, c);
}

PlacementChoice choose_placement(const PlacementCase& c) {
  const double owner = owner_seconds(c), replicated = replicated_seconds(c);
  PlacementChoice choice;
  choice.placement = owner < replicated ? Placement::kOwner : Placement::kReplicated;
  char text[256];
  std::snprintf(text, sizeof text,
                "%s: a step takes %.3g ms as owner, %.3g ms replicated (computing alone %.3g ms, "
                "%.3g MB of weights, %.3g MB of g-nets, %.3g MB/s)",
                std::string(placement_name(choice.placement)).c_str(), 1e3 * owner,
                1e3 * replicated, 1e3 * c.compute_seconds,
                1e-6 * static_cast<double>(c.weight_bytes),
                1e-6 * static_cast<double>(c.theta_bytes), 1e-6 * c.bytes_per_second);
  choice.reason = text;
  return choice;
}

}  // namespace gbcompress
