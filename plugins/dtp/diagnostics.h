#pragma once
/// How near targets are to gradients, layer by layer.

#include <map>
#include <string>

#include "feedback.h"

namespace gbcompress::dtp {

/// Of one batch. Where it is off, its members do nothing.
class Diagnostics {
 public:
  /// @param inputs, outputs  of each stage; with `on`, inputs have gradients
  Diagnostics(const std::vector<Stage>& stages, const std::vector<at::Tensor>& inputs,
              const std::vector<at::Tensor>& outputs, bool on);
  /// Backpropagation through the stages, whose gradients are put aside. To be called before the
  /// local gradients are added.
  /// @param error  dL/d(output of the last stage)
  void before(const at::Tensor& error);
  /// Adds, for each stage's name, "cosine.NAME" of the local gradient with backpropagation's; and
  /// of its feedback network "angle.NAME", in degrees, and "distance.NAME", relative, between what
  /// it makes of a random change and what the transpose of the stage's Jacobian makes of it.
  void after(std::map<std::string, double>& measured, const std::vector<StageCall>& calls,
             const std::vector<std::unique_ptr<Feedback>>& feedback, const NoiseKey& key);

 private:
  const std::vector<Stage>& stages_;
  const std::vector<at::Tensor>&inputs_, &outputs_;
  bool on_;
  std::vector<at::Tensor> gradients_;             ///< backpropagation's, one flat vector a stage
  std::vector<std::vector<at::Tensor>> earlier_;  ///< that were there before
};

}  // namespace gbcompress::dtp
