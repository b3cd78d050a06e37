#pragma once
/// Training a model through its bottleneck, and measuring it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gbcompress/bottleneck.h"
#include "gbcompress/dataset.h"
#include "gbcompress/model.h"
#include "gbcompress/optimizer.h"

namespace gbcompress {

enum class Loss : std::uint8_t {
  kTask,     ///< cross-entropy against the labels
  kDistill,  ///< cross-entropy against the original model's output distribution
  kWeights,  ///< squared distance to the original weights; needs no data and no forward pass
};
std::string_view loss_name(Loss loss) noexcept;  ///< "task", "distill", "weights"
std::optional<Loss> parse_loss(std::string_view name) noexcept;

/// What bits of residual parameters and coded g-nets cost while they are trained.
struct RateOptions {
  /// The loss is the task's plus lambda * bits / predictions, which are the labels of the training
  /// split: one a picture, one a character; above 0. At ln 2 it is a description length: of the
  /// labels given the model and of the model.
  double lambda = 0.3;
  /// When set, lambda is only where the price begins: it is steered towards files of this size.
  std::optional<std::int64_t> max_bytes;
  /// Where nothing is trained and a size is asked: a tensor's step is proportional to its
  /// deviation^evenness, 0 to 1.
  double evenness = 0;
  /// How integers are chosen where nothing is trained.
  Quantiser quantiser = Quantiser::kTrellis;
  /// Where there is data but nothing is trained (no epochs): samples of the training split that say
  /// what a tensor's error costs, 0 for none; its step is then proportional to
  /// importance^(-temper/2), 0 to 1.
  std::int64_t calibration = 512;
  double temper = 0.75;
  /// What the file would take now; needed with max_bytes.
  std::function<std::int64_t(const GenomicBottleneck&)> file_bytes;
};

struct TrainOptions {
  Loss loss = Loss::kTask;
  std::int64_t epochs = 10;      ///< over the training split; 0 to 1,000,000
  std::int64_t batch = 64;       ///< samples a step, at least 1
  std::int64_t fit_steps = 300;  ///< steps of fitting the original weights before anything else
  Schedule schedule = Schedule::kOneCycle;
  std::uint64_t seed = 0;
  /// Parts that a rank's share of a batch is computed in, one after another, to save memory.
  std::int64_t accumulate = 1;
  /// Above 0: a batch is computed in this many shards, a power of two up to 4,096 and at least the
  /// number of ranks, and their gradients are added up in one fixed tree: the same bits for any
  /// number of ranks. g-nets must be replicated. 0: each rank's part is one.
  std::int64_t shards = 0;
  /// Of Loss::kDistill: the part of the labels' cross-entropy in the loss, 0 to below 1.
  double labels = 0;
  /// Pictures are moved by up to so many pixels, and mirrored half the time, anew in each epoch.
  std::int64_t shift = 0;
  bool mirror = false;
  /// Computes with the model in evaluation mode: batch norms keep their statistics.
  bool freeze_norms = false;
  RateOptions rate;
};

/// Lets a loop be taken up again, and its caller act between steps.
struct LoopControl {
  std::int64_t start = 0;  ///< steps that were done before
  /// Called after every step with the number done so far, on every rank. What it throws ends the
  /// loop; without it the loop itself throws Error(kInterrupted) on request.
  std::function<void(std::int64_t done)> after_step = {};
};

/// What is told to whoever watches.
struct Progress {
  std::string phase;      ///< "fit", "train", "evaluate"
  std::int64_t done = 0;  ///< steps
  std::int64_t total = 0;
  double loss = 0;  ///< of the last step; NaN where there is none
};
using ProgressSink = std::function<void(const Progress&)>;

/// Fits the generated weights to `originals` (the model's values when the bottleneck was made):
/// the loss is the squared error over the variance, averaged over all generated weights.
/// @return the final loss: 1 is as bad as predicting the mean, 0 is exact
/// @throws Error(kInterrupted) between steps
double fit_weights(GenomicBottleneck& bottleneck, std::int64_t steps, Schedule schedule,
                   const ProgressSink& progress = {}, const LoopControl& control = {});

/// Trains through the five verbs: `epochs` over `data` in an order keyed by (seed, epoch). With
/// several ranks each computes its part of every batch. [collective]
/// @param teacher  the original model, for Loss::kDistill only
/// @throws Error(kNonFinite) when the loss stops being a number, Error(kInterrupted)
void train(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
           const TrainOptions& options, Model* teacher = nullptr, const ProgressSink& progress = {},
           const LoopControl& control = {});

/// The metric of a model on a split, in evaluation mode and without gradients.
/// @throws Error(kUsage) when the model has no forward pass, Error(kShapeMismatch)
double evaluate(Model& model, const Dataset& data, Metric metric,
                const ProgressSink& progress = {});

std::string_view metric_name(Metric metric) noexcept;  ///< "accuracy_percent", "nats_per_char"
/// How much worse `after` is than `before`, in the metric's unit; negative where it is better.
double metric_drop(Metric metric, double before, double after) noexcept;

}  // namespace gbcompress
