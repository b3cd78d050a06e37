#pragma once
/// The result of `compress --json`: the same keys whichever method made the file.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/plan.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

struct CompressResult {
  std::string output;
  std::int64_t input_bytes = 0, output_bytes = 0;
  nlohmann::ordered_json metric;  ///< null: quality was not evaluated
  std::int64_t parameters = 0, gnet_parameters = 0, plain_parameters = 0, generated_tensors = 0;
  double weight_error = 0;
  CompressionPlan plan;  ///< that was executed
  std::string method, method_reason, allocation;
  std::int64_t corrected_norms = 0, attempts = 0;
  std::string attempt_taken;
  double lambda = 0;
  nlohmann::ordered_json training;  ///< null: nothing was trained
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;
  std::string target_default;  ///< of a target that was not given; else empty
  bool target_met = true;
  std::string target_note, identity;
  std::vector<std::string> notes;  ///< what was said of the file, without the target's
  std::vector<StoredTensor> tensors;
  std::int64_t world = 1;
  double bytes_per_step = 0;
  std::optional<double> change_error;  ///< with a base only
  std::int64_t unchanged_tensors = 0;  ///< with a base only
  std::string settings;                ///< JSON
};

nlohmann::ordered_json to_json(const CompressResult& result);

}  // namespace gbcompress::cli
