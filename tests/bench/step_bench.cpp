// What a training step with quantized weights costs beside the plain one: the same net, batch,
// loss and threads, one step of each in turn, so that whatever else the machine does hits both.
//   gbc_step_bench [--threads N] [--steps N] [--run N] [--batch N] MODEL...
// The entropy model is refreshed a hundred times in a run; --run says how many steps a run has of
// which --steps are timed (as many if it is left out), so that refreshes fall on steps as in the
// run that is meant. MODEL: lenet-300-100, resnet20 or mlp:...; or a TorchScript file that takes
// integers, as FILE:VOCABULARY:WINDOW. The plain step is forward, cross-entropy, backward and
// torch::optim::AdamW.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"

namespace gbcompress {
namespace {

/// Steps before the clock starts; refreshes of the entropy model fall within what is timed.
constexpr int kWarmUp = 20;
constexpr std::int64_t kClasses = 10;

struct Case {
  std::string name;
  std::unique_ptr<Model> plain, quantized;
  at::Tensor inputs, targets;
};

Case text_case(const std::string& word, std::int64_t batch, const Registry& registry) {
  const auto second = word.rfind(':'), first = word.rfind(':', second - 1);
  const std::string file = word.substr(0, first);
  const std::int64_t vocabulary = std::atoll(word.c_str() + first + 1),
                     window = std::atoll(word.c_str() + second + 1);
  return {file, open_model(file, "", registry), open_model(file, "", registry),
          at::randint(vocabulary, {batch, window}, at::kLong),
          at::randint(vocabulary, {batch, window}, at::kLong)};
}

Case case_of(const std::string& word, std::int64_t batch, const Registry& registry) {
  if (word.find(".pt:") != std::string::npos) return text_case(word, batch, registry);
  const bool pictures = word.rfind("resnet", 0) == 0;
  const bool digits = word.rfind("mlp", 0) == 0;
  const std::vector<std::int64_t> shape =
      pictures ? std::vector<std::int64_t>{batch, 3, 32, 32}
               : std::vector<std::int64_t>{batch, digits ? std::int64_t{64} : std::int64_t{784}};
  return {word, build_model(word, registry), build_model(word, registry), at::randn(shape),
          at::randint(kClasses, {batch}, at::kLong)};
}

at::Tensor loss_of(Model& model, const Case& c) {
  return at::cross_entropy_loss(model.forward(c.inputs).flatten(0, -2), c.targets.flatten());
}

double seconds(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(Case& c, int steps, int run, const Registry& registry) {
  std::vector<at::Tensor> parameters;
  for (const NamedParameter& p : c.plain->tensors())
    if (p.trainable && p.tied_to.empty()) {
      p.tensor.requires_grad_(true);
      parameters.push_back(p.tensor);
    }
  c.plain->train(true);
  c.quantized->train(true);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  GenomicBottleneck bottleneck(c.quantized->tensors(), registry,
                               {.mode = WeightMode::kQuantized,
                                .rate = {.lambda = 0.03, .predictions = 60'000, .steps = run}});
  const auto plain_step = [&] {
    optimizer.zero_grad();
    loss_of(*c.plain, c).backward();
    optimizer.step();
  };
  const auto quantized_step = [&] {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    loss_of(*c.quantized, c).backward();
    bottleneck.backward();
    bottleneck.step();
  };
  double plain = 0, quantized = 0;
  for (int i = -kWarmUp; i < steps; ++i) {
    const double a = seconds(plain_step), b = seconds(quantized_step);
    if (i >= 0) plain += a, quantized += b;
  }
  std::printf("%-50s %6lld %8d %10.3f %10.3f %7.2f\n", c.name.c_str(),
              static_cast<long long>(c.inputs.size(0)), at::get_num_threads(), 1e3 * plain / steps,
              1e3 * quantized / steps, quantized / plain);
}

int run(int argc, char** argv) {
  std::int64_t batch = 0;
  int steps = 400, run = 0;
  std::vector<std::string> models;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool valued = word.rfind("--", 0) == 0 && i + 1 < argc;
    if (valued && word == "--threads")
      at::set_num_threads(std::atoi(argv[++i]));
    else if (valued && word == "--steps")
      steps = std::max(1, std::atoi(argv[++i]));
    else if (valued && word == "--run")
      run = std::max(1, std::atoi(argv[++i]));
    else if (valued && word == "--batch")
      batch = std::atoll(argv[++i]);
    else
      models.push_back(word);
  }
  if (models.empty()) {
    std::fprintf(stderr, "name a model: lenet-300-100, resnet20 or FILE.pt:VOCABULARY:WINDOW\n");
    return 2;
  }
  torch::manual_seed(0);
  PluginHost host;
  host.registry().stage("gbcompress", register_builtin_models);
  std::printf("%-50s %6s %8s %10s %10s %7s\n", "model", "batch", "threads", "plain ms", "quantized",
              "ratio");
  for (const std::string& model : models) {
    const bool text = model.find(".pt:") != std::string::npos;
    const std::int64_t usual = text ? 32 : model.rfind("resnet", 0) == 0 ? 128 : 256;
    Case c = case_of(model, batch > 0 ? batch : usual, host.registry());
    measure(c, steps, run > 0 ? run : kWarmUp + steps, host.registry());
  }
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) try {
  return gbcompress::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
