#pragma once
/// The quality drop of a compressed model, measured on training data that it has not seen.

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "compress/quality/held_out_split.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// A given model has been trained on the held-out split and scores better on it than on new data; a
/// model that is trained without it does not. So a drop is measured from the same training at a
/// lambda near 0 (the baseline run), plus the baseline run's own drop on the data that it trains
/// on. Its drop on the held-out split alone is overfit of the original.
class DropEstimate {
 public:
  /// @param model  with its first values
  /// @param fresh  the model is new: drops are measured from the baseline run alone
  DropEstimate(Model& model, const HeldOutSplit& split, Metric metric, bool fresh,
               std::uint64_t seed);

  /// To be called once, with the model of the baseline run. Without it drops are measured from the
  /// original.
  void take_baseline(Model& model);

  /// Whether the original may be overfit to the held-out split, as the baseline run then still is:
  /// on the data of the baseline run it is as good as that model, and its scores differ from those
  /// of `model` by less than a drop of `allowed`.
  bool may_leak(Model& model, double allowed) const;
  /// To be called once, after take_baseline(), with a model that was trained anew from values too
  /// coarse to be overfit: correct answers of the original beyond it, up to kMostLeakage, count as
  /// overfit.
  void take_relearned(Model& model);
  /// Points of accuracy that count as overfit at most. With few data, knowledge from other data
  /// looks like overfit too; this bounds its cost.
  static constexpr double kMostLeakage = 1;

  /// What was measured, for a run that is resumed.
  struct State {
    double baseline = 0, noise = 0, baseline_seen = 0;
    bool relearned = false;
  };
  State state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  /// Of the model as it is now, in the metric's unit.
  double drop(Model& model) const;
  /// Standard error of the difference of two models' scores, the smallest drop that these data
  /// resolve.
  double noise() const { return state_.noise; }

 private:
  double quality(Model& model, const Dataset& data) const;

  const Dataset held_out_, seen_;
  Metric metric_;
  bool fresh_;
  at::Tensor original_;  ///< scores of held_out_'s samples
  double original_seen_ = 0;
  State state_;
};

/// Of a mean of n differences of `a` and `b`; at least what one sample more or less makes.
double standard_error(Metric metric, const at::Tensor& a, const at::Tensor& b);
/// Of an accuracy in percent on so many samples, in points; at least one sample's share.
double binomial_error(double percent, std::int64_t samples);

/// A difference of a metric: "0.3 points".
std::string in_units(Metric metric, double value);
/// "quality drop 0.3 points", "quality gain 0.02 nats per character".
std::string drop_text(Metric metric, double drop);

}  // namespace gbcompress
