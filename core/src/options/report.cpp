#include "gbcompress/report.h"

#include <algorithm>
#include <utility>

namespace gbcompress {
namespace {

bool is_exact(const std::vector<StoredTensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const StoredTensor& tensor) { return tensor.error == 0; });
}

}  // namespace

double CompressionReport::ratio() const noexcept {
  return output_bytes > 0 ? static_cast<double>(input_bytes) / static_cast<double>(output_bytes)
                          : 0;
}

const std::vector<StoredTensor>& CompressionReport::asked_tensors() const noexcept {
  return draft ? draft->tensors : tensors;
}

CompressionReport report_of(WeightsReport file, std::optional<WeightsReport> draft,
                            std::int64_t input_bytes, CompressionPlan plan) {
  CompressionReport report;
  report.input_bytes = input_bytes;
  report.output_bytes = file.output_bytes;
  report.parameters = report.plain_parameters = file.parameters;
  report.weight_error = file.total_error;
  report.change_error = file.change_error;
  report.unchanged = file.unchanged;
  report.method =
      is_exact(file.tensors) ? method_name(Method::kExact) : plan.name(plan.methods.back());
  const bool calibrated = plan.methods.back() == Method::kCalibrated;
  if (!is_exact(draft ? draft->tensors : file.tensors))
    report.allocation =
        calibrated ? "second-order statistics (calibrated)" : "the weights (data-free)";
  report.plan = std::move(plan);
  report.target_met = file.target_met;
  report.target_note = std::move(file.target_note);
  report.notes = std::move(file.notes);
  report.identity = std::move(file.identity);
  report.tensors = std::move(file.tensors);
  report.draft = std::move(draft);
  return report;
}

}  // namespace gbcompress
