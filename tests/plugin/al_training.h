#pragma once
/// A model that associated learning trains, step by step.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <map>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"
#include "gbcompress/strategy.h"
#include "plugin/door.h"

namespace gbcompress::test {

inline constexpr std::int64_t kRows = 16, kSteps = 8;

inline const PluginHost& host() {
  static PluginHost& one = *new PluginHost;
  if (one.loaded().empty()) {
    one.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
    for (const char* name : {"linear", "conv", "al", "nets"}) one.load(builtin(name));
  }
  return one;
}

inline void seed(std::uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(value);
}

inline BottleneckOptions all_plain() {
  BottleneckOptions options;
  options.min_elements = 1 << 30;
  return options;
}

/// A model of four stages that a strategy trains by plain gradient descent.
struct Training {
  explicit Training(const std::string& options, const std::string& arch = "mlp:20-24-16-12-5",
                    std::vector<std::int64_t> sample = {20}, bool of_tokens = false,
                    const BottleneckOptions& stored = all_plain())
      : shape(std::move(sample)), tokens(of_tokens) {
    seed(5);
    model = build_model(arch, host().registry());
    bottleneck.emplace(model->tensors(), host().registry(), stored);
    StrategySetup setup{*model, *bottleneck};
    setup.loss = [](const at::Tensor& output, const StrategyBatch& batch) {
      return at::cross_entropy_loss(output, batch.targets);
    };
    setup.example = batch_of(0).inputs.slice(0, 0, 1);
    setup.seed = 3;
    setup.batch = kRows;
    setup.steps = kSteps;
    strategy = make_strategy({"al", options}, setup, host().registry());
    model->train(true);
  }
  StrategyBatch batch_of(std::int64_t step) const {
    at::Generator generator =
        at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 + step));
    StrategyBatch batch;
    const std::int64_t rows = step % 3 == 2 ? kRows - 5 : kRows;
    std::vector<std::int64_t> sizes = {rows};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    batch.inputs = at::randn(sizes, generator);
    if (tokens) batch.inputs = at::randint(0, 30, sizes, generator, at::kLong);
    batch.targets = at::randint(0, 5, {rows}, generator, at::kLong);
    batch.step = step;
    for (std::int64_t i = 0; i < rows; ++i) batch.samples.push_back(step * kRows + i);
    return batch;
  }
  Measurements step(std::int64_t number) {
    const c10::AutoGradMode with_grad(true);
    bottleneck->zero_grad();
    const Measurements measured = strategy->step(batch_of(number));
    const c10::NoGradGuard no_grad;
    for (NamedParameter& p : model->tensors())
      if (p.trainable && p.tensor.grad().defined()) p.tensor.sub_(p.tensor.grad(), 0.05);
    return measured;
  }
  /// The same as a training run does it, with the bottleneck's AdamW.
  void optimize(std::int64_t number) {
    const c10::AutoGradMode with_grad(true);
    bottleneck->zero_grad();
    strategy->step(batch_of(number));
    bottleneck->backward(Gradients::kSame);
    bottleneck->step();
    bottleneck->predict_weights();
  }
  std::map<std::string, at::Tensor> weights() const {
    std::map<std::string, at::Tensor> result;
    for (const NamedParameter& p : model->tensors())
      result[p.info.name] = p.tensor.detach().clone();
    return result;
  }

  std::vector<std::int64_t> shape;
  bool tokens;
  std::unique_ptr<Model> model;
  std::optional<GenomicBottleneck> bottleneck;
  std::unique_ptr<Strategy> strategy;
};

inline void expect_same(const std::vector<StateEntry>& a, const std::vector<StateEntry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
}

/// Of a strategy's options.
inline std::string refused_options(const std::string& options,
                                   const std::string& arch = "mlp:20-24-16-12-5") {
  return usage_refusal(options, [&] { Training training(options, arch); });
}

}  // namespace gbcompress::test
