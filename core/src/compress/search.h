#pragma once
/// The attempts of a call: one, or as many as it takes to find the price or the size.

#include <optional>
#include <string>
#include <vector>

#include "compress/job.h"
#include "compress/notes.h"

namespace gbcompress {

struct Outcome {
  /// Of the last attempt; empty if the file is a data-free one.
  std::optional<GenomicBottleneck> bottleneck = {};
  std::optional<WeightsReport> weights = {};  ///< of a data-free file
  std::vector<std::byte> file;                ///< the best one
  bool target_met = true;                     ///< as far as quality is concerned
  std::string note;                           ///< why a target is not met, where it is not
  std::string taken;                          ///< which attempt of a search, and why; or ""
  double kept = 1;                            ///< AboveChance::kept() of the file's model
  std::int64_t attempts = 1;
  double price = 0;           ///< lambda of the file; 0: nothing was priced
  double bytes_per_step = 0;  ///< sent by this rank
};

/// The plan of g-nets whose file has that size; residual parameters need none.
BottleneckOptions sized_to(const Job& job, std::int64_t bytes);
/// Calibrated integers of the wanted size, or the smallest file found whose model is not collapsed.
/// [collective]
Outcome calibrated_size(Job& job);

/// [collective]
Outcome attempt_all(Job& job);

}  // namespace gbcompress
