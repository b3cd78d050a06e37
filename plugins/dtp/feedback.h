#pragma once
/// The feedback network of one layer, and how it learns.

#include <gbcompress/optimizer.h>
#include <gbcompress/strategy.h>

#include <memory>
#include <optional>

#include "inverses.h"
#include "settings.h"

namespace gbcompress::dtp {

/// What one stage computed for a batch.
struct StageCall {
  at::Tensor input, output;  ///< without a graph
  CallRecord record;
};

/// The way back through one stage. Its weights lie in one buffer.
class Feedback {
 public:
  /// @param example  the stage's input for one sample, [1, ...]
  Feedback(const Stage& stage, const at::Tensor& example, const Settings& settings,
           const LayerSettings& own, std::uint64_t seed);

  const std::string& name() const { return name_; }
  /// Without weights there is nothing to learn.
  bool learns() const { return weights_.numel() > 0; }
  StageCall call(const at::Tensor& input) const;
  /// Chooses the learning rate anew where it is not given and SGD steps a stage whose batch norms
  /// divide by the deviations of the batch: they decide how steep the loss is, and change as the
  /// stage learns. On every rank, before accumulate().
  /// @param call  of the batch. @param samples  numbers of its rows
  void follow_statistics(const StageCall& call, std::span<const std::int64_t> samples,
                         std::uint64_t step);
  /// The target of the stage's input from that of its output.
  at::Tensor target(const StageCall& call, const at::Tensor& output_target) const;
  /// What the feedback network makes of a small change of the output: its answer to the transpose
  /// of the stage's Jacobian.
  at::Tensor action(const StageCall& call, const at::Tensor& change) const;

  /// Adds the gradient of one iteration's loss over some rows of a batch to `gradient`.
  /// @param samples  numbers of the rows, keys of their noise
  /// @param rows     of the whole batch: losses are means over them
  /// @return those rows' part of the loss
  double accumulate(const StageCall& call, std::span<const std::int64_t> samples, double rows,
                    std::uint64_t step, std::int64_t iteration, at::Tensor& gradient);
  /// One step of the optimizer.
  /// @param rows  of the batch that the gradient is of
  void update(const at::Tensor& gradient, double rows);

  at::Tensor& weights() { return weights_; }  ///< [n] float32
  /// What is trained beside it, the same shapes at any time: learning rate, moments.
  std::vector<at::Tensor> memory() const;
  void restore_memory(const std::vector<at::Tensor>& memory);

 private:
  /// @param noise  names the draw
  at::Tensor loss(const StageCall& call, std::span<const std::int64_t> samples, std::uint64_t step,
                  const std::string& noise) const;
  void choose_rate(const at::Tensor& example);
  /// Mean squares of what the network makes of noise of deviation 1, for one row, over the squares
  /// of each of its weights that multiply it, added up: the curvature of the loss along them.
  double steepness(const StageCall& call, const at::Tensor& dy) const;

  std::string name_;
  const Settings& settings_;
  LayerSettings own_;
  std::uint64_t seed_;
  std::unique_ptr<LayerInverse> way_;
  bool affine_;
  bool chooses_ = false;    ///< SGD's learning rate
  double needed_rows_ = 1;  ///< of a batch; with fewer the learning rate is lower
  at::Tensor weights_, gradient_;
  std::optional<AdamW> optimizer_;  ///< none without weights
};

}  // namespace gbcompress::dtp
