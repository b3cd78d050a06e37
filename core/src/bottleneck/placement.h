#pragma once
/// Who computes which g-nets, and what that costs. No LibTorch.

#include <cstdint>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/bottleneck_options.h"
#include "gbcompress/gnet.h"

namespace GBC_INTERNAL gbcompress {

/// One bank, for sharing out: all its g-nets cost the same.
struct BankLoad {
  std::int64_t gnets = 0;
  double cost = 0;  ///< of one g-net: positions of a tile times hidden units
};

BankLoad load_of(const BankShape& shape, std::int64_t gnets);

/// Shares all g-nets out among ranks: costliest first, each to the rank with the least to do, the
/// lowest of those that tie. The g-nets of a bank are alike, so that a rank's are made neighbors.
/// @return  [bank][rank], world + 1 numbers a bank: g-nets first[r] up to first[r + 1] belong to r
std::vector<std::vector<std::int64_t>> share_out(const std::vector<BankLoad>& banks, int world);

/// What is known of one bank when its placement is decided.
struct PlacementCase {
  double compute_seconds = 0;     ///< forward and backward of the whole bank on one rank
  std::int64_t weight_bytes = 0;  ///< what the bank generates, float32
  std::int64_t theta_bytes = 0;   ///< its parameters
  double bytes_per_second = 0;    ///< of one rank's link; above 0
  int world = 1;
};
/// Seconds of one step.
/// owner: each rank computes its share; gradients of all weights go to their owners and all weights
/// come back, 2 B (W - 1) / W bytes a rank. replicated: every rank computes everything; the
/// gradient of the parameters is summed, the same formula with their bytes.
double owner_seconds(const PlacementCase& c);
double replicated_seconds(const PlacementCase& c);

/// kOwner or kReplicated, and one line that says why.
struct PlacementChoice {
  Placement placement = Placement::kReplicated;
  std::string reason;
};
PlacementChoice choose_placement(const PlacementCase& c);

}  // namespace gbcompress
