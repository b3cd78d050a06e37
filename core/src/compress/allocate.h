#pragma once
/// Integers of residual parameters that nobody trains, from what training samples say.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"
#include "gbcompress/train.h"
#include "model/model_snapshot.h"
#include "statistics/norm_correction.h"
#include "train/calibrated.h"

namespace gbcompress {

/// Where bytes go: equal slope of what the outputs lose per bit. At high rate a tensor's bits fall
/// by 1 a weight where its step doubles and its error is cost * step^2 / 12, so that steps are
/// proportional to cost^(-1/2); at the rates of small files rounding saturates, which is why the
/// exponent is tempered. Which rule rounds is what loses least on samples that nothing else sees:
/// the divergence of the outputs' distribution from the original's, or half the squared error of
/// outputs that are no scores of classes.
class Allocation {
 public:
  /// Tells a line about what was tried.
  using Tell = std::function<void(const std::string&)>;
  /// @param model    with its first values, batch norms not folded; must outlive this
  /// @param samples  of the training split; `count` of them are used
  /// @param judge    of the same split, none of `samples`
  Allocation(Model& model, const Dataset& samples, std::int64_t count, const Dataset& judge,
             const TrainOptions& options, Tell tell);
  /// Takes the statistics. To be called once, with batch norms folded.
  /// @param values  of the model as it is, which are to be stored
  /// @param group   ranks that share the samples; null: one process [collective]
  /// @throws Error(kNonFinite) for outputs of samples that are not finite
  void weigh(const ModelSnapshot& values, Group* group);

  /// Integers for a file of at most `wanted` bytes, if there are any, by the rule that loses least;
  /// batch norms are corrected for what was rounded.
  /// @param refit  there is time for weights to be fitted to rounded layers before them
  void land(GenomicBottleneck& bottleneck, std::int64_t wanted, bool refit);

  /// What the model as it stands loses on the samples that judge: KL divergence in nats, or half
  /// the squared error.
  double loss() const { return lost(judged()); }
  bool weighed() const { return values_.has_value(); }
  std::int64_t samples() const { return samples_.size(); }
  std::int64_t corrected_norms() const { return static_cast<std::int64_t>(norms_.size()); }
  /// Of the last land().
  std::string rule() const { return best_ ? best_->rule.text() : ""; }

 private:
  struct Try {
    Rule rule;
    double x = 0, lost = 0;
    std::int64_t bytes = 0;
    std::vector<PackedValues> integers = {};
  };
  /// Tells what a file of a rule loses.
  void tell(const std::string& rule, std::int64_t bytes, double lost) const;
  /// Batch norms of the model get statistics that fit its present weights, and are folded.
  /// @return indices of the vectors that changed
  std::vector<std::size_t> correct_norms() const;
  void begin(const GenomicBottleneck& bottleneck);
  std::int64_t place(GenomicBottleneck& bottleneck, double x, const Rule& rule);
  bool search(GenomicBottleneck& bottleneck, std::int64_t wanted, Try& at);
  Try tried(GenomicBottleneck& bottleneck, std::int64_t wanted, const Rule& rule, double start);
  void choose_rule(GenomicBottleneck& bottleneck, std::int64_t wanted, bool refit);
  at::Tensor judged() const;
  double lost(const at::Tensor& now) const;

  Model& model_;
  Dataset samples_, judge_;
  NormCorrection norms_;
  TrainOptions options_;
  Tell tell_;
  std::optional<ModelSnapshot> values_;  ///< to be stored
  SecondOrderStatistics statistics_;
  std::optional<CalibratedIntegers> integers_;
  at::Tensor original_;  ///< judged() of the values to be stored
  std::optional<Try> best_;
  std::int64_t best_for_ = 0;  ///< the size that it was chosen for
};

}  // namespace gbcompress
