#pragma once
/// What two models answer to the same data.

#include <cstdint>

#include "gbcompress/dataset.h"
#include "gbcompress/export.h"
#include "gbcompress/model.h"
#include "gbcompress/train.h"

namespace GBC_API gbcompress {

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
