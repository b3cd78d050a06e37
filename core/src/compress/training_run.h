#pragma once
/// Runs on one model, one after another: what methods ask of them. No LibTorch, so that a test can
/// stand in for them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/plan.h"
#include "gbcompress/weights.h"
#include "search/search_state.h"

namespace gbcompress {

/// A model keeps less than this part of the original's quality above chance: it is collapsed.
inline constexpr double kLeastKept = 0.5;

/// A file that a run made.
struct Candidate {
  std::vector<std::byte> file = {};
  double lambda = 0;  ///< 0: no rate was in the loss
  double kept = 1;    ///< part of the original's quality above chance
  double loss = 0;    ///< mean cross-entropy in nats, or the error of outputs
  std::int64_t attempts = 1;
  bool target_met = true;                     ///< as far as quality is concerned
  std::string note = {};                      ///< why a target is not met, where it is not
  std::string taken = {};                     ///< which attempt of a search, and why; or ""
  std::optional<WeightsReport> weights = {};  ///< of a file that compress_weights() made
  std::string rule = {};  ///< by which its integers were chosen, with statistics

  bool collapsed() const { return kept < kLeastKept; }
};

/// Of a file's model beside the given one, on the held-out split.
struct QualityDrop {
  double drop = 0;  ///< in the metric's unit; below 0: a gain
  double standard_error = 0;
  /// NaN is measurable.
  bool measurable() const { return !(drop <= standard_error); }
};

class TrainingRun {
 public:
  /// Weights, step sizes and moments at one time.
  using State = std::shared_ptr<const void>;
  /// What earlier attempts of an interrupted run left.
  struct Resumed {
    LambdaSearchState search;
    std::vector<std::byte> best_file;
    State base;  ///< null: the beginning
  };

  virtual ~TrainingRun() = default;

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
  /// "quality drop 0.02 points on the held-out split, within one standard error (0.03 points)"
  virtual std::string drop_text(const QualityDrop& drop) const = 0;

  // What RateSearch asks for:

  /// The state that a run begins with which is not resumed.
  virtual State beginning() = 0;
  virtual State state() const = 0;
  virtual void restore(const State& state) = 0;
  /// Once, before the first attempt; nothing for a new run.
  virtual std::optional<Resumed> resumed() = 0;
  /// After each attempt.
  /// @param search  what the run itself knows of it (the held-out split) is filled in
  /// @param base    what the next attempt may begin with, beside where the run stands; null: the
  ///                beginning
  virtual void save(LambdaSearchState search, const std::vector<std::byte>& best_file,
                    const State& base) = 0;

  /// Trains on from where the run stands.
  /// @param from      lambda of the attempt that it continues; 0: the beginning
  /// @param baseline  quality drops are measured from this one
  virtual LambdaPoint attempt(double lambda, double from, bool baseline) = 0;
  /// The file of the model as the run stands.
  virtual Candidate candidate() = 0;
  /// The same with integers chosen anew for a file of at most so many bytes.
  virtual Candidate cut_to(std::int64_t bytes) = 0;

  /// Lambda that a search begins with, and training runs that it may take.
  virtual double first_lambda() const = 0;
  virtual std::int64_t most_attempts() const = 0;
  /// Standard error of a quality drop.
  virtual double noise() const = 0;
  /// Whether it is worth to look for what the given model remembers of the held-out split.
  virtual bool looks_for_leakage() const = 0;
  /// Whether the last attempt's drop is above `allowed` only because the given model is overfit to
  /// the held-out split.
  virtual bool may_remember(double allowed) = 0;
  /// Measures that, by training without these samples; the run then stands where it stood.
  /// @return part of every drop that is not counted
  virtual double leakage() = 0;

  /// Whether there is time for another attempt as long as the last one.
  virtual bool time_for(std::chrono::steady_clock::duration last) const = 0;
  virtual void tell(const std::string& line) const = 0;
  /// @param done  attempts so far
  virtual void show(const LambdaPoint& point, std::int64_t done, bool baseline) const = 0;
  /// "quality drop 0.3 points"
  virtual std::string drop_text(double drop) const = 0;
};

}  // namespace gbcompress
