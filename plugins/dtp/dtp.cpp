/// Difference target propagation: each stage learns from a target of its own, which feedback
/// networks beside the model carry down from the output. (Meulemans et al., "A theoretical
/// framework for target propagation", 2020; Ernoult et al., "Towards scaling difference target
/// propagation by learning backprop targets", 2022.)
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/bottleneck.h>
#include <gbcompress/model.h>
#include <gbcompress/plugin.h>

#include <cmath>
#include <numeric>

#include "../common/batch_accuracy.h"
#include "../common/stage_tensors.h"
#include "diagnostics.h"
#include "feedback.h"
#include "settings.h"
#include "sharing.h"

namespace gbcompress::dtp {
namespace {

/// SGD takes the gradient of |s - t|^2 / 2, so that its learning rate and its weight decay are
/// those of the published code. AdamW, g-nets and quantized weights take it divided by beta: their
/// steps do not depend on a factor, and the rate weight keeps the unit that it has in
/// backpropagation.
class PublishedUnit {
 public:
  /// Sets the gradients of the parameters that SGD steps aside.
  explicit PublishedUnit(const GenomicBottleneck& bottleneck)
      : parameters_(bottleneck.sgd_parameters()) {
    for (at::Tensor& p : parameters_) {
      earlier_.push_back(p.grad());
      p.mutable_grad().reset();
    }
  }
  /// Multiplies the gradients that have come since by beta, and adds the earlier ones.
  void apply(double beta) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& grad = parameters_[i].mutable_grad();
      if (grad.defined()) grad.mul_(beta);
      if (earlier_[i].defined()) grad = grad.defined() ? grad.add_(earlier_[i]) : earlier_[i];
    }
  }

 private:
  std::vector<at::Tensor> parameters_, earlier_;
};

class Dtp final : public Strategy {
 public:
  /// Feedback networks learn from the whole batch.
  std::vector<std::string> needs() const override { return {"stages", "whole-batch"}; }
  std::vector<std::string> options() const override { return option_names(); }

  void build(const StrategySetup& setup) override {
    model_ = &setup.model;
    bottleneck_ = &setup.bottleneck;
    loss_ = setup.loss;
    seed_ = setup.seed;
    settings_ = read_settings(setup.options, model_->stages().size());
    sharing_ = std::make_unique<Sharing>(settings_, setup.group);
    model_->train(false);  // for shapes: statistics stay as they are
    const c10::NoGradGuard no_grad;
    at::Tensor x = setup.example;
    for (std::size_t i = 0; i < model_->stages().size(); ++i) {
      const Stage& stage = model_->stages()[i];
      const at::Tensor y = stage.forward(x);
      if (i > 0) add_feedback(stage, x, y, settings_.layers[i - 1]);
      x = y;
    }
  }

  Measurements step(const StrategyBatch& batch) override {
    if (settings_.shards > 1) refuse_batch_statistics();
    const bool diagnose = settings_.diagnose > 0 && batch.step % settings_.diagnose == 0;
    const Forward forward = run(batch.inputs, diagnose);
    const at::Tensor logits = forward.outputs.back().detach().requires_grad_(true);
    const at::Tensor loss = loss_(logits, batch);
    Measurements measured{loss.item<double>(), {}};
    if (!std::isfinite(measured.loss)) return measured;
    loss.backward();

    std::vector<StageCall> calls;
    for (std::size_t i = 0; i < feedback_.size(); ++i)
      calls.push_back(feedback_[i]->call(forward.inputs[i + 1]));
    for (std::size_t i = 0; i < feedback_.size(); ++i)
      if (computes_batch_statistics(model_->stages()[i + 1]))
        feedback_[i]->follow_statistics(calls[i], batch.samples, key(batch));
    const std::vector<double> losses = sharing_->train(feedback_, calls, batch);

    const auto changes = target_changes(calls, logits.grad(), batch);
    measure(measured.more, losses, changes, batch);
    batch_accuracy(logits, batch.targets).add_to(measured.more);
    PublishedUnit unit(*bottleneck_);
    Diagnostics diagnostics(model_->stages(), forward.inputs, forward.outputs, diagnose);
    diagnostics.before(logits.grad());
    for (std::size_t i = 0; i < changes.size(); ++i)
      forward.outputs[i].backward(changes[i] * batch.weight, /*retain_graph=*/diagnose);
    diagnostics.after(measured.more, calls, feedback_, {seed_, "dtp.diagnose", "", key(batch)});
    unit.apply(settings_.beta);
    return measured;
  }

  std::vector<StateEntry> aux_state() const override {
    sharing_->share_memory(feedback_);
    std::vector<StateEntry> state;
    for (const auto& feedback : feedback_) {
      state.push_back({feedback->name() + "#feedback", feedback->weights().clone()});
      const auto memory = feedback->memory();
      for (std::size_t i = 0; i < memory.size(); ++i)
        state.push_back({feedback->name() + "#memory" + std::to_string(i), memory[i]});
    }
    return state;
  }
  void restore(const std::vector<StateEntry>& state) override {
    std::size_t at = 0;
    for (const auto& feedback : feedback_) {
      feedback->weights().copy_(state.at(at++).value);
      std::vector<at::Tensor> memory;
      for (std::size_t i = feedback->memory().size(); i > 0; --i)
        memory.push_back(state.at(at++).value);
      feedback->restore_memory(memory);
    }
  }

 private:
  /// Stages one by one, cut off from each other.
  struct Forward {
    std::vector<at::Tensor> inputs, outputs;
  };

  static std::uint64_t key(const StrategyBatch& batch) {
    return static_cast<std::uint64_t>(batch.step);
  }

  /// Whether batch norms compute with running statistics is known when training has begun.
  void refuse_batch_statistics() const {
    for (std::size_t i = 1; i < model_->stages().size(); ++i)
      if (computes_batch_statistics(model_->stages()[i]))
        throw Error(Errc::kUsage,
                    "strategy dtp: shards is " + std::to_string(settings_.shards) + ", but stage " +
                        model_->stages()[i].name +
                        " holds a batch norm, whose statistics are those of the whole batch and "
                        "not of a shard; leave shards at 1");
  }

  void add_feedback(const Stage& stage, const at::Tensor& x, const at::Tensor& y,
                    const LayerSettings& own) {
    auto feedback = std::make_unique<Feedback>(stage, x, settings_, own, seed_);
    const at::Tensor again = feedback->call(x).output;
    if (!again.sizes().equals(y.sizes()) || !at::allclose(again, y, 1e-4, 1e-5))
      throw Error(Errc::kUsage, "strategy dtp: stage " + stage.name +
                                    " computes something else than its layers one after another; "
                                    "Stage::module must hold those that Stage::forward runs");
    feedback_.push_back(std::move(feedback));
  }

  Forward run(const at::Tensor& inputs, bool inputs_have_gradients) const {
    Forward result;
    at::Tensor x = inputs;
    for (const Stage& stage : model_->stages()) {
      if (inputs_have_gradients && !result.inputs.empty()) x.set_requires_grad(true);
      result.inputs.push_back(x);
      result.outputs.push_back(stage.forward(x));
      x = result.outputs.back().detach();
    }
    return result;
  }

  /// What is added to each stage's gradient with respect to its output: (s - t) / beta a row, so
  /// that it approximates backpropagation's, whatever beta is. PublishedUnit has the exception.
  std::vector<at::Tensor> target_changes(const std::vector<StageCall>& calls,
                                         const at::Tensor& error,
                                         const StrategyBatch& batch) const {
    const c10::NoGradGuard no_grad;
    const auto rows = static_cast<double>(batch.samples.size());
    std::vector<at::Tensor> changes(calls.size() + 1);
    changes.back() = error;
    at::Tensor target = calls.back().output - error * (settings_.beta * rows);
    for (std::size_t i = calls.size(); i-- > 0;) {
      target = feedback_[i]->target(calls[i], target);
      changes[i] = (calls[i].input - target) / (settings_.beta * rows);
    }
    return changes;
  }

  /// Losses of the feedback networks, and how far the targets are, in the units of the published
  /// code.
  void measure(std::map<std::string, double>& measured, const std::vector<double>& losses,
               const std::vector<at::Tensor>& changes, const StrategyBatch& batch) const {
    measured["feedback_loss"] = std::accumulate(losses.begin(), losses.end(), 0.0);
    for (std::size_t i = 0; i < losses.size(); ++i)
      measured["feedback_loss." + feedback_[i]->name()] = losses[i];
    const auto rows = static_cast<double>(batch.samples.size());
    double distance = 0;  // |s - t| over the whole batch
    for (std::size_t i = 0; i < changes.size(); ++i) {
      distance = changes[i].norm().item<double>() * settings_.beta * rows;
      measured["target_loss." + model_->stages()[i].name] = distance * distance / (2 * rows);
    }
    measured["delta"] = distance;
  }

  Model* model_ = nullptr;
  const GenomicBottleneck* bottleneck_ = nullptr;
  decltype(StrategySetup::loss) loss_;
  std::uint64_t seed_ = 0;
  Settings settings_;
  std::vector<std::unique_ptr<Feedback>> feedback_;  ///< of stages 1, 2, ...
  std::unique_ptr<Sharing> sharing_;
};

}  // namespace
}  // namespace gbcompress::dtp

GBC_PLUGIN("dtp", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_strategy("dtp", [] { return std::make_unique<gbcompress::dtp::Dtp>(); });
})
