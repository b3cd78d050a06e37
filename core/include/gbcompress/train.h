#pragma once
/// Training a model through its bottleneck, measuring it, and what two models answer.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"
#include "gbcompress/options.h"
#include "gbcompress/strategy.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// The calls of step() that train() makes.
std::int64_t training_steps(const TrainOptions& options, const Dataset& data);
/// options.rate with the predictions and the steps of train() on these data, for
/// BottleneckOptions::rate: a bottleneck that train() steps has its rate weight from there.
RateOptions rate_of(const TrainOptions& options, const Dataset& data);

/// Lets a loop be resumed, and its caller act between steps.
struct LoopControl {
  std::int64_t start = 0;  ///< steps that were done before
  /// Called after every step with the number done so far, on every rank. What it throws ends the
  /// loop; without it the loop itself throws Error(kInterrupted) on request.
  std::function<void(std::int64_t done)> after_step = {};
  /// Of train(): called on every rank after every TrainOptions::measure_epochs epochs, while the
  /// model is in evaluation mode and has the weights that would be stored. What it returns is part
  /// of the progress of that step.
  std::function<std::map<std::string, double>()> measure = {};
};

/// What a progress sink gets.
struct Progress {
  /// "fit", "train", "evaluate", "compare"; "attempt" when one at a lambda is done, with its
  /// "lambda", "bytes" and, with a held-out split, "held_out_drop" in `measured`.
  std::string phase;
  std::int64_t done = 0;  ///< steps
  std::int64_t total = 0;
  double loss = 0;  ///< of the last step; NaN where there is none
  /// Measurements::more of the last step; in "train", with a rate weight, also "bits" of all
  /// integers and "lambda", the rate weight.
  std::map<std::string, double> measured = {};
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
/// @param strategy  made by make_strategy() from strategy_setup(); null: backpropagation
/// @throws Error(kNonFinite) when the loss stops being a number, Error(kInterrupted); Error(kUsage)
///         for options that contradict each other or the strategy
void train(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
           const TrainOptions& options, Model* teacher = nullptr, const ProgressSink& progress = {},
           const LoopControl& control = {}, Strategy* strategy = nullptr);
/// What a strategy is made of for train() with these options: its loss is options.loss.
StrategySetup strategy_setup(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
                             const TrainOptions& options, Group* group);

/// Of a model on a split.
struct Quality {
  double metric = 0;
  /// Percent of labels among the five highest scores; with Metric::kAccuracy and more than five
  /// classes.
  std::optional<double> top5;
};

/// A model on a split, in evaluation mode and without gradients.
/// @throws Error(kUsage) when the model has no forward pass, Error(kShapeMismatch)
Quality measure(Model& model, const Dataset& data, Metric metric,
                const ProgressSink& progress = {});
/// The metric alone.
double evaluate(Model& model, const Dataset& data, Metric metric,
                const ProgressSink& progress = {});
/// The same for each sample, on average over its positions: 100 for right and 0 for wrong, or
/// nats. float64 [samples].
at::Tensor evaluate_samples(Model& model, const Dataset& data, Metric metric,
                            const ProgressSink& progress = {});
/// Whether a row's label is among its five highest scores, all of them where there are fewer.
/// @param scores  [rows, classes]; labels: int64 [rows]
/// @return  bool [rows]
at::Tensor in_top5(const at::Tensor& scores, const at::Tensor& labels);

/// The same data with what `original` makes of their inputs as targets: its outputs, or the class
/// that it gives the highest score. Data that hold targets stay as they are.
/// @throws Error(kUsage, kShapeMismatch) as evaluate()
Data answered(Model& original, Data data);

/// Inputs made from a model's batch norms where there are no data, to calibrate it: 64 of them,
/// whose activations have the means and deviations that the norms hold. Without targets: give them
/// to answered().
/// @param spec  "synthetic", or with the shape of one input "synthetic:3x224x224"; else it is that
/// of
///              the architecture, or of the first convolution with sides of 128
/// @throws Error(kUsage) for a recurrent model, one without batch norms, without a forward pass, or
///         whose input shape is unknown
Data synthetic_data(Model& model, const std::string& spec, std::uint64_t seed,
                    const ProgressSink& progress = {});

// What two models answer to the same data.

/// Averages over all positions of all samples: one a sample, or each place of a text.
struct OutputComparison {
  double metric_a = 0, metric_b = 0;  ///< as evaluate()
  double agreement = 0;               ///< percent of positions whose largest output is the same
  /// Kullback-Leibler divergence of B's softmax from A's, sum p_a (log p_a - log p_b), in nats.
  double divergence = 0;
  double largest_difference = 0;  ///< of any output (logit), absolute
  std::int64_t samples = 0, positions = 0;
};

/// Both in evaluation mode and without gradients.
/// @throws Error(kShapeMismatch) where their outputs have different shapes; as evaluate();
///         Error(kInterrupted)
OutputComparison compare_outputs(Model& a, Model& b, const Dataset& data, Metric metric,
                                 const ProgressSink& progress = {});

}  // namespace gbcompress
