#pragma once
/// What a call of compress() has resolved to: its options without anything left to choose, its
/// data, and what was prepared.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "compress/above_chance.h"
#include "compress/allocate.h"
#include "compress/hold_back.h"
#include "compress/judge.h"
#include "compress/recipe.h"
#include "gbcompress/compress.h"
#include "train/training_checkpoints.h"

namespace gbcompress {

/// Epochs of an attempt that goes on from where another one ended, beside those of the first.
inline std::int64_t later_epochs(std::int64_t epochs) {
  return std::max<std::int64_t>(1, epochs / 2);
}

struct Job {
  Model& model;
  std::int64_t input_bytes;
  const Data* data;
  Model* teacher;
  const Registry& registry;
  const ProgressSink& progress;
  CompressOptions options;
  TrainingCheckpoints checkpoints;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  std::optional<HeldBack> split = {};  ///< where quality is judged
  const Dataset* train = nullptr;      ///< what training sees; null without data
  std::optional<Judge> judge = {};
  std::optional<AboveChance> above_chance = {};  ///< with data
  bool trained = false;                          ///< trains(), of the whole call
  std::int64_t wanted_bytes = 0;                 ///< 0: no size is asked
  std::int64_t attempts = 0;                     ///< training runs at most
  Augmentation own_augmentation = {};            ///< that the given model seems to have seen
  /// What run() of a method begins with, batch norms folded; of calibrated jobs and those that try
  /// cheaper methods.
  std::optional<ModelSnapshot> originals = {};
  std::optional<Allocation> allocation = {};
  Effort effort = Effort::kMax;
  bool tries_cheaper = false;  ///< than training: tries_cheaper_methods(), of the whole call
  CompressReport report = {};

  bool residual() const { return options.bottleneck.mode == WeightMode::kQuantized; }
  /// Whether bits are in the loss: some parameters are integers, or all g-nets.
  bool priced() const;
  bool searches_price() const {
    return trained && priced() &&
           (wanted_bytes > 0 || options.target.max_drop || options.target.no_loss);
  }
};

/// Checks what is asked, chooses what is left to choose, holds data back. Nothing is trained,
/// changed or written. [collective]
std::unique_ptr<Job> resolve(Model& model, std::int64_t input_bytes, const Data* data,
                             Model* teacher, const Registry& registry,
                             const CompressOptions& options, const ProgressSink& progress);

/// Folds batch norms, and takes the calibration set's statistics of a model that is not trained.
void prepare(Job& job);
/// From here on the job trains: chooses what is left of the training, for the time that is left.
void train_instead(Job& job);

/// Of the minutes that are given, the part that training is planned for.
inline constexpr double kTrainingPart = 0.85;

/// Size of the calibration set: larger where samples are cheap, for a matrix with a thousand inputs
/// of which each sample is one needs thousands.
std::int64_t calibration_count(const Job& job);

/// Rank 0's number on every rank.
double of_rank_0(Group* group, double value);

}  // namespace gbcompress
