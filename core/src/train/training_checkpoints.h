#pragma once
/// Saving a run between steps, and taking it up again.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gbcompress/bottleneck.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/model.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// Where a run stands. Ordered: attempt, then phase, then steps done in it.
struct RunPosition {
  std::int64_t attempt = 0;  ///< of those that look for a size
  std::string phase;         ///< "fit", "train"
  std::int64_t done = 0;     ///< steps of the phase
  /// State of the search, of earlier attempts' results; null: no attempt has ended.
  std::shared_ptr<const std::vector<std::byte>> search = {};
  /// The best file of earlier attempts; null: none.
  std::shared_ptr<const std::vector<std::byte>> best_file = {};
  /// What the next attempt may begin with, beside where the bottleneck stands; null: its beginning.
  std::shared_ptr<const std::vector<StateEntry>> kept_state = {};
};

/// The checkpoints of one run. Members are [collective: every rank, same order].
class TrainingCheckpoints {
 public:
  /// @param facts  what the run depends on, by name: "model", "data", "setting train.batch"
  /// @param warn   told what went wrong without harm
  /// @throws Error(kExists) where the folder holds checkpoints of another run and `resume` is not
  ///         set; Error(kUsage) where the resumed one has other facts, named; as CheckpointReader
  TrainingCheckpoints(CheckpointSettings settings, CheckpointFacts facts, Group* group,
                      std::function<void(const std::string&)> warn);
  ~TrainingCheckpoints();

  /// A fact that the run chose by itself, such as epochs for the minutes it has: what a run that
  /// is taken up began with, else `value`. To be called before the first step.
  std::string chosen_fact(const std::string& name, const std::string& value);
  /// Where to go on from; nothing for a new run, and nothing again after restore().
  const std::optional<RunPosition>& resumed() const;
  /// Brings the bottleneck to the state that was saved. [collective]
  /// @return where to go on from, with its kept state
  RunPosition restore(GenomicBottleneck& bottleneck);
  /// The same for what is the strategy's own; to be called for each one before its first step.
  /// Nothing to do unless restore() above has just gone on in the middle of training.
  void restore(Strategy& strategy);

  /// To be called after every step. Saves when it is time, in the background; on SIGUSR1; and on
  /// SIGINT or SIGTERM of any rank, at once.
  /// A disk that cannot take a checkpoint is a warning, and the run continues.
  /// @throws Error(kInterrupted) on request to stop, after the checkpoint is there or could not be
  ///         saved
  /// @param strategy  null in phases that have none
  void after_step(const RunPosition& position, const GenomicBottleneck& bottleneck,
                  const Strategy* strategy = nullptr);
  /// The same after a step beside the run, whose state has no place in a checkpoint: saves nothing.
  /// @throws Error(kInterrupted) on every rank, on request to stop of any
  void after_step_aside();
  /// The last steps' state, when an error ends the run and there is one process. Never throws.
  void save_before_failing(const RunPosition& position, const GenomicBottleneck& bottleneck,
                           const Strategy* strategy = nullptr) noexcept;
  /// Waits for what is being written, and warns where that fails.
  void finish();
  /// The run is complete: removes the checkpoints that it wrote. [rank 0 acts]
  void remove();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// SHA-256, in hexadecimal, over names, types, shapes and values.
std::string model_digest(const std::vector<NamedParameter>& tensors);
/// The same over both splits.
std::string data_digest(const Data& data);

}  // namespace gbcompress
