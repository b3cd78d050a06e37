/// A strategy from outside: every stage learns from the error of the output, brought to it by a
/// matrix of its own instead of by the stages behind it (Webster, Choi and Ahn, "Learning the
/// Connections in Direct Feedback Alignment", 2020). The matrices learn as the last layer does.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <gbcompress/model.h>
#include <gbcompress/plugin.h>
#include <gbcompress/ranks.h>

#include <cmath>

namespace {

using namespace gbcompress;

class DirectFeedback final : public Strategy {
 public:
  std::vector<std::string> needs() const override { return {"stages"}; }
  std::vector<std::string> options() const override { return {"rate"}; }

  void build(const StrategySetup& setup) override {
    model_ = &setup.model;
    group_ = setup.group;
    loss_ = setup.loss;
    if (const auto rate = setup.options.find("rate"); rate != setup.options.end()) {
      rate_ = std::atof(rate->second.c_str());
      if (!(rate_ >= 0 && rate_ <= 1))
        throw Error(Errc::kUsage, "direct_feedback: rate must be 0 to 1, not " + rate->second);
    }
    const c10::NoGradGuard no_grad;
    at::Generator generator = at::detail::createCPUGenerator(setup.seed);
    std::vector<std::int64_t> widths;
    at::Tensor x = setup.example;
    for (const Stage& stage : model_->stages()) widths.push_back((x = stage.forward(x)).numel());
    if (x.dim() != 2) throw Error(Errc::kUsage, "direct_feedback needs one prediction a sample");
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      feedback_.push_back(at::randn({x.size(1), widths[i]}, generator) /
                          std::sqrt(static_cast<double>(widths[i])));
  }

  Measurements step(const StrategyBatch& batch) override {
    std::vector<at::Tensor> outputs;
    at::Tensor x = batch.inputs;
    for (const Stage& stage : model_->stages()) {
      outputs.push_back(stage.forward(x));
      x = outputs.back().detach();
    }
    x.set_requires_grad(true);
    const at::Tensor loss = loss_(x, batch);
    loss.backward();
    const at::Tensor error = x.grad();
    outputs.back().backward(error * batch.weight);
    double pull = 0;
    for (std::size_t i = 0; i < feedback_.size(); ++i) {
      const at::Tensor signal = error.matmul(feedback_[i]).reshape_as(outputs[i]);
      outputs[i].backward(signal * batch.weight);
      learn(feedback_[i], error, outputs[i].detach().flatten(1));
      pull += signal.square().sum().item<double>();
    }
    return {loss.item<double>(), {{"feedback_norm", std::sqrt(pull)}}};
  }

  std::vector<StateEntry> aux_state() const override {
    std::vector<StateEntry> state;
    for (std::size_t i = 0; i < feedback_.size(); ++i)
      state.push_back({"feedback." + std::to_string(i), feedback_[i].clone()});
    return state;
  }
  void restore(const std::vector<StateEntry>& state) override {
    for (std::size_t i = 0; i < feedback_.size(); ++i) feedback_[i].copy_(state.at(i).value);
  }

 private:
  /// Each rank sees its own rows; all keep the same matrices.
  void learn(at::Tensor& feedback, const at::Tensor& error, const at::Tensor& output) {
    const c10::NoGradGuard no_grad;
    at::Tensor change = error.t().matmul(output);
    if (group_ && group_->world() > 1) {
      group_->all_reduce(change).wait();
      change /= group_->world();
    }
    feedback.sub_(change, rate_);
  }

  Model* model_ = nullptr;
  Group* group_ = nullptr;
  decltype(StrategySetup::loss) loss_;
  double rate_ = 0.01;
  std::vector<at::Tensor> feedback_;  // [classes, width of a stage's output]
};

}  // namespace

GBC_PLUGIN("direct_feedback", "0.1.0", [](gbcompress::Registrar& registrar) {
  registrar.register_strategy("direct_feedback", [] { return std::make_unique<DirectFeedback>(); });
})
