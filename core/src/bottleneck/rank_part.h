#pragma once
/// Which of a bottleneck's g-nets live on which rank.

#include <optional>
#include <string>
#include <vector>

#include "bottleneck/exchange.h"
#include "bottleneck/generated_part.h"

namespace gbcompress {

struct RankPart {
  explicit RankPart(Group* all) : group(all && all->world() > 1 ? all : nullptr) {}

  /// Every rank gets all g-nets. [collective]
  void gather(const std::vector<Bank>& banks) const;
  /// Fills in who has the g-nets of each layer.
  void tell(GeneratedPart& generated) const;

  Group* group;                                  ///< null: one process
  std::vector<std::optional<OwnedTiles>> owned;  ///< one a bank; nothing where it is replicated
  std::vector<std::string> notes;                ///< one a bank: why it is computed there
  /// G-nets are where a strategy computes their layer, and no other rank needs its weights.
  bool with_layers = false;
  /// Likewise the rank that steps each plain parameter; -1: every rank. Empty: every rank all.
  std::vector<int> plain;
};

}  // namespace gbcompress
