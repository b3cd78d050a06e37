#pragma once
/// Which rank computes what, where the pieces of work do not depend on each other.

#include <gbcompress/ranks.h>

#include <vector>

namespace gbcompress {

/// The heaviest piece first, each to the rank that has least: at most 4/3 of the best possible.
/// (Graham, "Bounds on multiprocessing timing anomalies", 1969.)
/// @param costs  of each piece, in any unit, at least 0
/// @return the rank of each piece
std::vector<int> balance(const std::vector<double>& costs, int world);

/// What rank 0 measured, on every rank. [collective]
std::vector<double> of_first_rank(Group& group, const std::vector<double>& mine);

}  // namespace gbcompress
