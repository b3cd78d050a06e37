#pragma once
/// Uses of statistics that are compared.

#include <optional>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/statistics.h"

namespace GBC_INTERNAL gbcompress {

struct CandidateUse {
  std::string name;
  bool statistics = false;  ///< else integers and steps are those of the weights alone
  StatisticsUse use = {};
  bool sequential = false;  ///< WeightsOptions::sequential
};

/// What is tried, in the order of what is expected: no statistics, the use that is recommended,
/// others. A use that is the same as an earlier one is left out.
std::vector<CandidateUse> candidate_uses(const Statistics& statistics);

/// The same use with matrices fitted to the inputs that quantized layers give.
CandidateUse in_sequence(const CandidateUse& candidate);

/// The same use without correction of biases, or nothing where none is corrected.
std::optional<CandidateUse> with_biases_kept(const CandidateUse& candidate,
                                             const Statistics& statistics);

}  // namespace gbcompress
