#pragma once
/// What a compressed model has lost, told by training data that it has not seen.

#include <ATen/core/Tensor.h>

#include <optional>

#include "compress/hold_back.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// A given model has seen the data that are held back now, and scores better on them than on new
/// ones; what is trained without them does not. So a loss is measured beside the same training at
/// a price near 0 (the reference), less what that has lost on the data that it does train on: what
/// it lost there is harm, what it lost on the held-back data alone is what the original remembered
/// of them.
class Judge {
 public:
  /// @param model  with its first values
  /// @param fresh  the model is new: the reference is all there is to compare with
  Judge(Model& model, const HeldBack& split, Metric metric, bool fresh, std::uint64_t seed);

  /// To be called once, with the model trained at a price near 0. Without it losses are beside the
  /// original itself.
  void take_reference(Model& model);

  /// What take_reference() found, for a run that is taken up again.
  struct State {
    double baseline = 0, noise = 0;
  };
  State state() const { return {baseline_, noise_}; }
  void set_state(const State& state) {
    baseline_ = state.baseline;
    noise_ = state.noise;
  }

  /// Loss of the model's quality as it is now, in the metric's unit.
  double drop(Model& model) const;
  /// Standard error of the difference of two models' scores, the smallest loss that these data can
  /// tell from nothing.
  double noise() const { return noise_; }

 private:
  double quality(Model& model, const Dataset& data) const;

  const Dataset judge_, seen_;
  Metric metric_;
  bool fresh_;
  at::Tensor original_;  ///< scores of judge_'s samples
  double original_seen_ = 0, baseline_ = 0, noise_ = 0;
};

}  // namespace gbcompress
