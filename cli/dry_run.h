#pragma once
/// What --dry-run prints, whichever method the plan has.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "table.h"

namespace gbcompress::cli {

struct DryRun {
  std::string method;                            ///< "quantized weights, data-free"
  std::int64_t least_bytes = 0, most_bytes = 0;  ///< of the file
  std::int64_t memory_bytes = 0;                 ///< of the process at its peak
  /// Where the cheapest of several methods suffices, and where all are tried.
  double least_seconds = 0, seconds = 0;
  std::string effort;  ///< "fast", "balanced", "max"; empty: there is no choice of a method
  // Of training:
  nlohmann::ordered_json training;  ///< null: nothing is trained
  std::int64_t training_samples = 0, held_back = 0, attempts = 0, steps = 0;
};

/// The rows for bytes, memory and time.
void add_cost_rows(Table& table, const DryRun& run);
nlohmann::ordered_json to_json(const DryRun& run);

}  // namespace gbcompress::cli
