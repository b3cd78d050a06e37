#pragma once
/// Options of a training run: losses, data, checkpoints. No LibTorch.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/bottleneck_options.h"
#include "gbcompress/codec.h"
#include "gbcompress/schedule.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

enum class Loss : std::uint8_t {
  kTask,     ///< cross-entropy against the labels
  kDistill,  ///< cross-entropy against the original model's output distribution
  kWeights,  ///< squared distance to the original weights; needs no data and no forward pass
};
std::string_view loss_name(Loss loss) noexcept;  ///< "task", "distill", "weights"

/// The rate of training, and what replaces it without training.
/// predictions and steps are those of the data: see rate_of().
struct TrainRateOptions : RateOptions {
  /// The error that is bounded without training.
  ErrorMeasure measure = ErrorMeasure::kRelative;
  /// How integers are chosen without training.
  Quantizer quantizer = Quantizer::kTrellis;
  /// Where there is data but nothing is trained (no epochs): samples of the training split that say
  /// what a tensor's error costs, 0 for none.
  std::int64_t calibration = 512;
};

/// How a batch becomes gradients (gbcompress/strategy.h).
struct StrategyChoice {
  std::string name = "backprop";
  std::string options;  ///< "KEY=VALUE ...", separated by blanks
};

struct TrainOptions {
  Loss loss = Loss::kTask;
  std::int64_t epochs = 10;  ///< over the training split; 0 to 1,000,000
  std::int64_t batch = 64;   ///< samples a step, at least 1
  /// Epochs between two calls of LoopControl::measure; 0: none. The result is the same either way.
  std::int64_t measure_epochs = 0;
  std::int64_t fit_steps = 300;  ///< steps of fitting the original weights before anything else
  Schedule schedule = Schedule::kOneCycle;
  /// Of the schedules of whole epochs: EpochSchedule::epochs (0: 30 for kStep, all of the run for
  /// kEpochCosine) and EpochSchedule::factor (unset: 0.1 for kStep, 0 for kEpochCosine).
  std::int64_t schedule_epochs = 0;
  std::optional<double> schedule_factor = {};
  std::uint64_t seed = 0;
  /// Above 0: a batch is computed in this many shards, a power of two up to 4,096 and at least the
  /// number of ranks, and their gradients are added up in one fixed tree: the same bits for any
  /// number of ranks. g-nets must be replicated. 0: each rank's part is one.
  std::int64_t shards = 0;
  /// Of Loss::kDistill: the part of the labels' cross-entropy in the loss, 0 to below 1.
  double labels = 0;
  /// Random shift of images, in pixels at most, and horizontal flip of half of them, in each epoch.
  std::int64_t shift = 0;
  bool flip = false;
  /// Batch norms compute with their running statistics, and keep them; dropout stays on.
  bool freeze_norms = false;
  TrainRateOptions rate;
  /// train() is given the object, callers of it read this.
  StrategyChoice strategy;
};

struct DataOptions {
  /// Per-channel mean and deviation subtracted and divided after pixels are scaled to 0..1. Empty:
  /// the data set's own habit (cifar10: ImageNet's, as the public ResNets expect; others: none).
  std::vector<double> mean = {}, std = {};
  std::int64_t context = 128;  ///< characters a window of text, 1 to 65,536
};

struct CheckpointSettings {
  /// Where checkpoints are written; empty: nowhere. Made when the first one is saved.
  std::filesystem::path folder;
  /// A checkpoint, or a folder of them, to continue from.
  std::optional<std::filesystem::path> resume;
  std::int64_t every_steps = 0;  ///< 0: not by steps
  double every_minutes = 10;     ///< 0: not by time
  int keep = 2;                  ///< at least 2
};

}  // namespace gbcompress
