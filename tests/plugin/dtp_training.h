#pragma once
/// A model that difference target propagation trains, step by step.

#include <torch/torch.h>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"
#include "gbcompress/strategy.h"
#include "plugin/door.h"

namespace gbcompress::test {

inline const PluginHost& host() {
  static PluginHost& one = *new PluginHost;
  if (one.loaded().empty()) {
    one.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
    for (const char* name : {"linear", "conv", "dtp", "nets"}) one.load(builtin(name));
  }
  return one;
}

inline at::Tensor mean_loss(const at::Tensor& output, const StrategyBatch& batch) {
  return at::cross_entropy_loss(output, batch.targets);
}

inline BottleneckOptions all_plain() {
  BottleneckOptions options;
  options.min_elements = 1 << 30;
  return options;
}

/// A model, its bottleneck and a strategy on one batch of random pictures.
struct Training {
  Training(const std::string& arch, const std::string& options, std::vector<std::int64_t> picture,
           const std::string& name = "dtp", const BottleneckOptions& weights = all_plain()) {
    torch::manual_seed(5);
    start(build_model(arch, host().registry()), options, std::move(picture), name, weights);
  }
  Training(std::unique_ptr<Model> made, const std::string& options,
           std::vector<std::int64_t> picture) {
    start(std::move(made), options, std::move(picture), "dtp", all_plain());
  }
  void start(std::unique_ptr<Model> made, const std::string& options,
             std::vector<std::int64_t> picture, const std::string& name,
             const BottleneckOptions& weights) {
    model = std::move(made);
    bottleneck.emplace(model->tensors(), host().registry(), weights);
    picture.insert(picture.begin(), 32);
    torch::manual_seed(6);
    batch.inputs = torch::rand(picture);
    batch.targets = torch::randint(10, {32});
    for (std::int64_t i = 0; i < 32; ++i) batch.samples.push_back(i);
    StrategySetup setup{*model, *bottleneck};
    setup.loss = mean_loss;
    setup.example = batch.inputs.slice(0, 0, 1);
    setup.seed = 3;
    strategy = make_strategy({name, options}, setup, host().registry());
    model->train(true);
  }
  Measurements step() {
    bottleneck->zero_grad();
    const Measurements measured = strategy->step(batch);
    ++batch.step;
    return measured;
  }
  at::Tensor gradient(const std::string& parameter) const {
    for (const NamedParameter& p : model->tensors())
      if (p.info.name == parameter) return p.tensor.grad().clone();
    ADD_FAILURE() << "no parameter " << parameter;
    return {};
  }

  std::unique_ptr<Model> model;
  std::optional<GenomicBottleneck> bottleneck;
  std::unique_ptr<Strategy> strategy;
  StrategyBatch batch;
};

inline std::string refusal(const std::string& arch, const std::string& options,
                           std::vector<std::int64_t> picture = {64}) {
  return usage_refusal(options, [&] { Training run(arch, options, std::move(picture)); });
}

}  // namespace gbcompress::test
