#include "result_json.h"

#include "dry_run.h"
#include "stored_table.h"

namespace gbcompress::cli {

nlohmann::ordered_json to_json(const CompressResult& result) {
  nlohmann::ordered_json json = {
      {"output", result.output},
      {"input_bytes", result.input_bytes},
      {"output_bytes", result.output_bytes},
      {"ratio", static_cast<double>(result.input_bytes) / static_cast<double>(result.output_bytes)},
      {"metric", result.metric},
      {"parameters", result.parameters},
      {"gnet_parameters", result.gnet_parameters},
      {"plain_parameters", result.plain_parameters},
      {"generated_tensors", result.generated_tensors},
      {"weight_error", result.weight_error},
      {"plan", plan_json(result.plan)},
      {"method", result.method},
      {"method_reason", result.method_reason},
      {"allocation", result.allocation},
      {"corrected_norms", result.corrected_norms},
      {"attempts", result.attempts},
      {"attempt_taken", result.attempt_taken},
      {"lambda", result.lambda},
      {"training", result.training},
      {"seconds", result.seconds},
      {"peak_memory_bytes", result.peak_memory_bytes},
      {"target_default", result.target_default},
      {"target_met", result.target_met},
      {"target_note", result.target_note},
      {"notes", result.notes},
      {"identity", result.identity},
      {"tensors", stored_json(result.tensors)},
      {"world", result.world},
      {"bytes_per_step", result.bytes_per_step}};
  if (result.change_error) {
    json["change_error"] = *result.change_error;
    json["unchanged_tensors"] = result.unchanged_tensors;
  }
  json["settings"] = nlohmann::ordered_json::parse(result.settings);
  return json;
}

}  // namespace gbcompress::cli
