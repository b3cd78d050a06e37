#pragma once
/// Uses of statistics that are compared.

#include <optional>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/tensor_bundle.h"
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
                                             const Statistics& statistics,
                                             const TensorBundle& weights);

/// The same use with a quarter more of each moment replaced by the identity, since few samples
/// overstate correlations; nothing where no moments are used, or only a quarter is left.
std::optional<CandidateUse> with_shrunk_moments(const CandidateUse& candidate,
                                                const Statistics& statistics);

}  // namespace gbcompress
