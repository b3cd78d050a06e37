#pragma once
/// A model in, a `.gbz` out, and the truth about that file.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/train.h"
#include "gbcompress/training_checkpoints.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

/// Everything here is measured on the file that was written, after reading it back.
struct CompressReport {
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  double ratio = 0;             ///< input_bytes / output_bytes
  std::int64_t parameters = 0;  ///< of the model, trainable
  std::int64_t gnet_parameters = 0;
  std::int64_t plain_parameters = 0;
  std::int64_t generated_tensors = 0;
  std::optional<Metric> metric;  ///< unset: not evaluated
  double before = 0;             ///< of the input model, on the test split
  double after = 0;              ///< of the expanded file, on the test split
  /// Mean squared error of generated weights / their variance; in residual mode squared error of
  /// residual parameters / their squares.
  double weight_error = 0;
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  ///< of the process
  bool target_met = true;
  std::string target_note;  ///< what was asked and what was reached, when not met
  /// Of residual parameters that were not trained, what their steps follow: "the weights alone",
  /// "512 training samples"; else empty.
  std::string allocation;
  std::int64_t corrected_norms = 0;  ///< batch norms that make up for rounded weights
  std::string description;           ///< GenomicBottleneck::describe()
  std::string identity;              ///< SHA-256 of the file
  /// Bytes that this rank sent a step of training, on average; 0 with one rank.
  double bytes_per_step = 0;
  /// How every tensor is stored, in the file's order; what it lost beside the model's own values
  /// with batch norms folded, where the model did not begin with random ones.
  std::vector<StoredTensor> tensors;
  std::int64_t attempts = 0;  ///< training runs, one a price
  double price = 0;           ///< lambda of the one that was kept; 0: nothing was priced
  TrainOptions train;         ///< as chosen
  double learning_rate = 0, step_speed = 0;
};

/// What compress() is about to do.
struct CompressPlan {
  std::string method;  ///< one line
  TrainOptions train;  ///< as chosen
  double learning_rate = 0, step_speed = 0;
  std::int64_t attempts = 0;  ///< training runs at most; 0: nothing is trained
  std::int64_t training_samples = 0, held_back = 0;
  std::int64_t steps = 0;  ///< of all attempts together
  /// Of the file, between these: the size that is asked, else what models of that many parameters
  /// came to.
  std::int64_t least_bytes = 0, most_bytes = 0;
  std::int64_t memory_bytes = 0;  ///< about
  double minutes = 0;             ///< about, on this machine
};

/// Everything of compress() before its first step: choices, held-back data, cost. Trains and writes
/// nothing. [collective]
CompressPlan plan_compression(Model& model, std::int64_t input_bytes, const Data* data,
                              Model* teacher, const Registry& registry,
                              const CompressOptions& options);

/// Plans g-nets for the target, fits and trains them, writes the file, reads it back, expands and
/// evaluates it. `model` ends with the expanded weights. With several ranks [collective]; only rank
/// 0's report has what is measured on the file.
/// @param input_bytes  size of the model file on disk, the ratio's numerator
/// @param data     null: weight fit only, and nothing is evaluated
/// @param teacher  a second copy of the model, needed for Loss::kDistill
/// @throws Error(kUsage) for a target out of range or a loss that needs what is not there
CompressReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                        const Registry& registry, const CompressOptions& options,
                        const ProgressSink& progress = {});

}  // namespace gbcompress
