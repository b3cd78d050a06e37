#pragma once
/// What a compression did and what its file is: the one result of every method. The command line
/// prints its table, its JSON object and its HTML page from it. No LibTorch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/metric.h"
#include "gbcompress/plan.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

/// Everything here is measured on the file that was written, after reading it back.
struct CompressionReport {
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t parameters = 0;        ///< of the model; those that can be trained, if that is known
  std::int64_t gnet_parameters = 0;   ///< in the file, of its g-nets
  std::int64_t plain_parameters = 0;  ///< in the file, stored directly
  std::int64_t generated_tensors = 0;
  std::optional<Metric> metric;                   ///< unset: not evaluated
  double before = 0;                              ///< of the input model, on the test split
  double after = 0;                               ///< of the expanded file, on the test split
  std::optional<double> top5_before, top5_after;  ///< Quality::top5, likewise
  /// Of the file at its last early exit, the published answer of associated learning; with data,
  /// and an architecture that has exits.
  std::optional<double> last_exit;
  /// Mean squared error of generated weights / their variance; of quantized weights their squared
  /// error / their squares.
  double weight_error = 0;
  std::optional<double> change_error;  ///< WeightsReport::change_error: with a base only
  std::int64_t unchanged = 0;          ///< tensors that are bit for bit in the base
  /// Of a file with layers: its first part, whose errors are those of its values.
  std::optional<WeightsReport> draft;
  /// What made the file: "data-free", "calibrated", "trained", "generated" or "exact".
  std::string method;
  CompressionPlan plan;  ///< that was executed; without an estimate of its cost
  /// Why that one, where cheaper methods were tried: one line; else empty.
  std::string method_reason;
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< of the process
  bool target_met = true;
  std::string target_note;         ///< the target and the result, if it is not reached
  std::vector<std::string> notes;  ///< WeightsReport::notes
  /// Of untrained quantized weights, the source of the step sizes: "the weights (data-free)",
  /// "512 training samples, ..."; else empty.
  std::string allocation;
  std::int64_t corrected_norms = 0;  ///< batch norms that make up for rounded weights
  std::string description;           ///< GenomicBottleneck::describe(), Strategy::describe()
  std::string identity;              ///< SHA-256 of the file
  std::int64_t world = 1;            ///< processes
  /// Bytes that this rank sent a step of training, on average; 0 with one rank.
  double bytes_per_step = 0;
  /// How every tensor is stored, in the file's order; its errors beside the model's own values
  /// with batch norms folded, where the model did not begin with random ones.
  std::vector<StoredTensor> tensors;
  std::int64_t attempts = 0;  ///< training runs, each at one lambda
  double lambda = 0;          ///< lambda of the one that was kept; 0: none
  /// Which attempt of a search the file is of, and why: one line; empty without a search.
  std::string attempt_taken;
  TrainOptions train;                        ///< as chosen
  double learning_rate = 0, step_speed = 0;  ///< as those of the plan

  /// input_bytes / output_bytes
  double ratio() const noexcept;
  /// The tensors that the target asks something of: those of the draft, if there is one.
  const std::vector<StoredTensor>& asked_tensors() const noexcept;
};

/// Of a file that compress_weights() wrote, and of its draft. The cost of the call is left out.
/// @param plan  that led to it
CompressionReport report_of(WeightsReport file, std::optional<WeightsReport> draft,
                            std::int64_t input_bytes, CompressionPlan plan);

}  // namespace gbcompress
