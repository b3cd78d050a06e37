#pragma once
/// Whether a compressed model still knows more than the answers' frequencies.

#include "compress/candidate.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// Compares a model with constant answers (chance): accuracy with that of the most frequent label,
/// cross-entropy with the entropy of the labels, outputs with their mean. A size can be met by a
/// model of zeros; one that keeps less than kLeastKept of what it had above chance counts as
/// collapsed, however small its file.
class AboveChance {
 public:
  static constexpr double kLeastKept = gbcompress::kLeastKept;

  /// @param model    with its first values
  /// @param samples  some of them are scored each time
  AboveChance(Model& model, const Dataset& samples, Metric metric, std::uint64_t seed);

  /// Part of the quality above chance that the model has kept; 1: all, 0 or less: none. Beside the
  /// best model seen, where the first one was at chance itself (it is new).
  double kept(Model& model);
  /// Mean cross-entropy of the samples, in nats, or the error of outputs.
  double loss(Model& model) const;
  /// Quality above chance of the best model seen; a run that is taken up sets it.
  double best() const { return best_; }
  void set_best(double best) { best_ = best; }
  /// "it keeps 3 % of what the original knows above chance", for a message.
  static std::string describe(double kept);

 private:
  double above(Model& model) const;

  const Dataset samples_;
  Metric metric_;
  double chance_ = 0, best_ = 0;
};

}  // namespace gbcompress
