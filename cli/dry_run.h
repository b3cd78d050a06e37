#pragma once
/// What --dry-run prints, whichever methods the plan has.

#include <nlohmann/json.hpp>

#include "gbcompress/plan.h"
#include "table.h"

namespace gbcompress::cli {

struct DryRun {
  CompressionPlan plan;             ///< with its cost
  nlohmann::ordered_json training;  ///< null: nothing is trained
};

/// The rows for what the file holds and the methods.
void add_method_rows(Table& table, const CompressionPlan& plan);
/// The rows for bytes, memory and time.
void add_cost_rows(Table& table, const CompressionCost& cost);
/// {"holds": "quantized weights", "methods": ["data-free", "calibrated"]}
nlohmann::ordered_json plan_json(const CompressionPlan& plan);
nlohmann::ordered_json to_json(const DryRun& run);

}  // namespace gbcompress::cli
