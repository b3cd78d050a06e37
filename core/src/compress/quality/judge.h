#pragma once
/// What a compressed model has lost, told by training data that it has not seen.

#include <ATen/core/Tensor.h>

#include <optional>

#include <string>
#include "compress/quality/hold_back.h"

#include "gbcompress/train.h"

namespace gbcompress {

/// A given model has seen the data that are held back now, and scores better on them than on new
/// ones; what is trained without them does not. So a loss is measured beside the same training at
/// a lambda near 0 (the reference), less what that has lost on the data that it does train on: what
/// it lost there is harm, what it lost on the held-back data alone is what the original remembered
/// of them.
class Judge {
 public:
  /// @param model  with its first values
  /// @param fresh  the model is new: the reference is all there is to compare with
  Judge(Model& model, const HeldBack& split, Metric metric, bool fresh, std::uint64_t seed);

  /// To be called once, with the model trained at a lambda near 0. Without it losses are beside the
  /// original itself.
  void take_reference(Model& model);

  /// Whether the original may have learned the very samples that are held back, which the reference
  /// then still remembers: it answers what the reference was trained on as well as that does, and
  /// its answers differ from those of `model` by less than a loss of `asked` allows for.
  bool may_remember(Model& model, double asked) const;
  /// To be called once, after take_reference(), with a model that was trained anew from values too
  /// coarse to remember single samples: what the original gets right beyond it, up to kMostMemory,
  /// counts as memory.
  void take_relearned(Model& model);
  /// Points of accuracy that are put down to memory at most. Where data are few, what was known
  /// from other data looks like memory too; this bounds what that can cost.
  static constexpr double kMostMemory = 1;

  /// What was found, for a run that is taken up again.
  struct State {
    double baseline = 0, noise = 0, reference_seen = 0;
    bool relearned = false;
  };
  State state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  /// Loss of the model's quality as it is now, in the metric's unit.
  double drop(Model& model) const;
  /// Standard error of the difference of two models' scores, the smallest loss that these data can
  /// tell from nothing.
  double noise() const { return state_.noise; }

 private:
  double quality(Model& model, const Dataset& data) const;

  const Dataset judge_, seen_;
  Metric metric_;
  bool fresh_;
  at::Tensor original_;  ///< scores of judge_'s samples
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
