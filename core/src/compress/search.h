#pragma once
/// The attempts of a call: one, or as many as it takes to find the price or the size.

#include <optional>
#include <string>
#include <vector>

#include "compress/job.h"

namespace gbcompress {

struct Outcome {
  std::optional<GenomicBottleneck> bottleneck;  ///< of the last attempt
  std::vector<std::byte> file;                  ///< the best one
  bool target_met = true;                       ///< as far as quality is concerned
  std::string note;
  std::int64_t attempts = 1;
  double price = 0;           ///< lambda of the file; 0: nothing was priced
  double bytes_per_step = 0;  ///< sent by this rank
};

/// [collective]
Outcome attempt_all(Job& job);

}  // namespace gbcompress
