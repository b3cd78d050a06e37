#pragma once
/// Statistics by the tensor that is coded: those of a tied tensor belong to its owner.

#include <optional>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "gbcompress/statistics.h"

namespace GBC_INTERNAL gbcompress {

/// For each tensor the first one of the same bytes and form, which may be itself.
std::vector<std::size_t> first_equals(const TensorBundle& weights);

class OwnedStatistics {
 public:
  /// One entry of the statistics, and its place in the bundle.
  struct StatisticsEntry {
    const std::string* name;
    const TensorStatistics* statistics;
    std::size_t first;
    std::optional<std::size_t> second = {};  ///< of an entry "A|B"
  };

  OwnedStatistics() = default;
  /// @param statistics  stay where they are
  /// @throws Error(kUsage) for a name that the bundle lacks; Error(kShapeMismatch) for a pair that
  ///         is one tensor, and for two importances of one tensor that have other rows
  OwnedStatistics(const TensorBundle& weights, const Statistics& statistics);

  /// At most one for each tensor, or pair: of several, the first that has moments.
  const std::vector<StatisticsEntry>& entries() const noexcept { return entries_; }
  /// Of the tensor's rows, in all its uses together; empty where it is not known.
  const std::vector<float>& importance(std::size_t i) const { return importance_.at(i); }
  /// Whether some of its inputs were measured.
  bool has_inputs(std::size_t i) const;
  /// Whether errors of the tensor's weights compensate for each other in that use, which errors of
  /// cosines do not.
  bool has_moments(std::size_t i, const StatisticsUse& use) const;

 private:
  void add(const StatisticsEntry& entry);

  std::vector<StatisticsEntry> entries_;
  std::vector<std::vector<float>> importance_;
};

}  // namespace gbcompress
