#pragma once
/// What a call of compress() works with: the request as it was given, the plan that follows from
/// it, and what is prepared and chosen on the way.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "compress/calibrated_files.h"
#include "compress/quality/above_chance.h"
#include "compress/quality/drop_estimate.h"
#include "compress/quality/held_out_split.h"
#include "compress/recipe.h"
#include "compress/request.h"
#include "gbcompress/compress.h"
#include "gbcompress/plan.h"
#include "model/model_snapshot.h"
#include "train/training_checkpoints.h"

namespace gbcompress {

/// Epochs of an attempt that goes on from where another one ended, beside those of the first.
inline std::int64_t later_epochs(std::int64_t epochs) {
  return std::max<std::int64_t>(1, epochs / 2);
}

struct CompressRun : CompressRequest {
  CompressOptions options;  ///< with what is chosen filled in
  TrainingCheckpoints checkpoints;
  CompressionPlan plan = {};
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  std::optional<HeldOutSplit> split = {};  ///< of the training split
  const Dataset* train = nullptr;      ///< what training sees; null without data
  std::optional<DropEstimate> drop_estimate = {};
  std::optional<AboveChance> above_chance = {};  ///< with data
  std::string strategy_text = {};                ///< Strategy::describe() of the last attempt
  bool trained = false;                          ///< on data, by the method that is run
  std::int64_t attempts = 0;                     ///< training runs at most
  Augmentation own_augmentation = {};            ///< that the given model seems to have seen
  /// What a method begins with, batch norms folded; of calibrated runs and those with several
  /// methods.
  std::optional<ModelSnapshot> originals = {};
  std::optional<CalibratedFiles> calibrated = {};

  std::int64_t wanted_bytes() const { return plan.max_bytes; }
  bool quantized() const { return options.bottleneck.mode == WeightMode::kQuantized; }
  /// Of what the mode names: latents, g-nets, or the weights themselves.
  double learning_rate() const {
    const BottleneckOptions& o = options.bottleneck;
    if (quantized()) return o.quantized_optimizer.lr;
    return o.mode == WeightMode::kGenerated ? o.gnet_optimizer.lr : o.plain_optimizer.lr;
  }
  bool several_methods() const { return plan.methods.size() > 1; }
  /// Whether bits are in the loss: some parameters are integers, or all g-nets.
  bool has_rate() const;
  /// Whether the plan's last method trains on data.
  bool may_train() const;
};

/// Checks what is asked, plans, chooses what is left to choose, holds data back. Nothing is
/// trained, changed or written. [collective]
std::unique_ptr<CompressRun> make_run(const CompressRequest& request,
                                      const CompressOptions& options);

/// Folds batch norms, and holds back the samples of methods that train nothing.
void prepare(CompressRun& call);
/// After cheaper methods: chooses what is left of the training, for the time that is left.
void train_instead(CompressRun& call);

/// Of the minutes that are given, the part that training is planned for.
inline constexpr double kTrainingPart = 0.85;

/// Size of the calibration set: larger where samples are cheap, for a matrix with a thousand inputs
/// of which each sample is one needs thousands.
std::int64_t calibration_count(const CompressRun& call);

/// Rank 0's number on every rank.
double of_rank_0(Group* group, double value);

}  // namespace gbcompress
