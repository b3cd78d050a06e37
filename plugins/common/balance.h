#pragma once
/// Which rank computes what, where the pieces of work do not depend on each other.

#include <gbcompress/ranks.h>

#include <string>
#include <vector>

namespace gbcompress {

/// In place of a rank: all of them together.
constexpr int kEverybody = -1;

/// The heaviest piece first, each to the rank that has least: at most 4/3 of the best possible.
/// (Graham, "Bounds on multiprocessing timing anomalies", 1969.)
/// @param costs  of each piece, in any unit, at least 0
/// @return the rank of each piece
std::vector<int> balance(const std::vector<double>& costs, int world);

/// What rank 0 measured, on every rank. [collective]
std::vector<double> of_first_rank(Group& group, const std::vector<double>& mine);

/// One line of who computes what and what was measured, for rank 0:
/// "PIECES by rank: conv1 0 (0.12 s), conv2 all (0.3 s); 0.42 s a batch alone, 0.27 s expected of
/// 2 ranks".
/// @param seconds   of each piece alone
/// @param expected  seconds of a batch with these owners
void tell(const std::string& pieces, const std::vector<std::string>& names,
          const std::vector<int>& owner, const std::vector<double>& seconds, double expected,
          int world);

}  // namespace gbcompress
