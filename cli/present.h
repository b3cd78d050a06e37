#pragma once
/// How `compress` shows a plan and a report, as a table and as JSON, whichever method made the
/// file.

#include <nlohmann/json.hpp>
#include <string>

#include "gbcompress/plan.h"
#include "gbcompress/report.h"
#include "gbcompress/settings.h"

namespace gbcompress::cli {

/// What the request says of the file, beside the report.
struct Request {
  std::string output;          ///< as `--json` names it
  std::string shown;           ///< as people read it
  std::string default_target;  ///< default_target_text()
  std::string settings;        ///< JSON
};

nlohmann::ordered_json to_json(const CompressionReport& report, const Request& request);
/// To standard output.
void print_report(const CompressionReport& report, const Request& request, bool verbose);

/// @param plan  with its cost
nlohmann::ordered_json to_json(const CompressionPlan& plan);
/// To standard output.
/// @param plan     with its cost
/// @param weights  of the model; 0: not counted
void print_plan(const CompressionPlan& plan, const std::string& default_target,
                std::int64_t weights = 0);

}  // namespace gbcompress::cli
