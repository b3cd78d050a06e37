#pragma once
/// Files that runs make, and what they lost. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/weights.h"

namespace gbcompress {

/// A model keeps less than this part of the original's quality above chance: it is collapsed.
inline constexpr double kLeastKept = 0.5;

/// A file that a run made.
struct Candidate {
  std::vector<std::byte> file = {};
  double lambda = 0;  ///< 0: no rate was in the loss
  double kept = 1;    ///< part of the original's quality above chance
  double loss = 0;    ///< mean cross-entropy in nats, or the error of outputs
  std::int64_t attempts = 1;
  bool target_met = true;                     ///< as far as quality is concerned
  std::string note = {};                      ///< why a target is not met, where it is not
  std::string taken = {};                     ///< which attempt of a search, and why; or ""
  std::optional<WeightsReport> weights = {};  ///< of a file that compress_weights() made
  std::string rule = {};  ///< by which its integers were chosen, with statistics

  bool collapsed() const { return kept < kLeastKept; }
};

/// Of a file's model beside the given one, on the held-out split.
struct QualityDrop {
  double drop = 0;  ///< in the metric's unit; below 0: a gain
  double standard_error = 0;
  /// NaN is measurable.
  bool measurable() const { return !(drop <= standard_error); }
};

}  // namespace gbcompress
