#pragma once
/// Runs on one model, one after another: what methods ask of them. No LibTorch, so that a test can
/// stand in for them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compress/lambda_run.h"
#include "gbcompress/plan.h"

namespace gbcompress {

class TrainingRun : public LambdaRun {
 public:
  /// Brings the model to its first values and prepares what the method needs: statistics, or the
  /// choices of training. Before each method of a plan.
  virtual void begin(Method method) = 0;
  /// From the model's first values: integers or g-nets for a file of so many bytes (0: no size is
  /// asked), trained where the method trains. The run then stands there.
  virtual void make(std::int64_t bytes) = 0;
  /// The file from the weights alone, for the target of the options.
  virtual Candidate data_free() = 0;
  /// Part of the quality above chance that the model as it stands has kept; 1 without data.
  virtual double kept() = 0;
  /// Quality drop of the model as it stands, as the limit of a target counts it.
  virtual double drop() = 0;
  /// Expands the file and compares its model with the given one.
  virtual QualityDrop measured(const std::vector<std::byte>& file) = 0;
  /// Of rank 0's file.
  virtual std::int64_t bytes_of(const std::vector<std::byte>& file) const = 0;
  /// Attempts over sizes that a resumed run has behind it.
  virtual std::int64_t attempts_done() const = 0;
  /// @param index  of the next attempt over sizes, from 0
  virtual void begin_attempt(std::int64_t index) = 0;
  /// Whether the time limit leaves time to train.
  virtual bool time_to_train() const = 0;
  /// Lambda that RateSearch begins with, and training runs that it may take.
  virtual double first_lambda() const = 0;
  virtual std::int64_t most_attempts() const = 0;
  /// Whether leakage (overfit of the given model to the held-out split) is worth measuring.
  virtual bool looks_for_leakage() const = 0;
  /// "quality drop 0.02 points on the held-out split, within one standard error (0.03 points)"
  virtual std::string drop_text(const QualityDrop& drop) const = 0;
  using LambdaRun::drop_text;
};

}  // namespace gbcompress
