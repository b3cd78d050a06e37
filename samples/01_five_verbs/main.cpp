// Trains a digit classifier whose weights come out of g-nets, saves it as a .gbz, loads it again.
//   five_verbs [OUT.gbz]
// Ends with status 1 below 96 % of the held-out digits.
#include <torch/torch.h>

#include <cstdio>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"

constexpr std::int64_t kEpochs = 30, kBatch = 64;
constexpr double kLeastPercent = 96;

int main(int argc, char** argv) try {
  // First: an ordinary model, and ordinary data (1,437 digits to learn from, 360 held out).
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::ReLU(),
                              torch::nn::Linear(128, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 10));
  const gbcompress::Data data = gbcompress::open_data("digits");

  // Second: the plugins say how layers are cut into tiles; the bottleneck gives each tile a g-net.
  gbcompress::PluginHost plugins;
  plugins.load_installed();
  gbcompress::BottleneckOptions options;
  options.target_ratio = 10;  // the recipe chooses g-nets for it, and how they are trained
  options.steps = kEpochs * ((data.train.size() + kBatch - 1) / kBatch);
  gbcompress::GenomicBottleneck bottleneck(*model, plugins.registry(), options);
  std::printf("%s\n", bottleneck.describe().c_str());

  // Third: the loop. The loss is the model's own; its gradients go on into the g-nets.
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t first = 0; first < data.train.size(); first += kBatch) {
      const auto batch =
          data.train.range(first, std::min<std::int64_t>(kBatch, data.train.size() - first));
      bottleneck.zero_grad();
      bottleneck.predict_weights();
      torch::nn::functional::cross_entropy(model->forward(batch.inputs), batch.targets).backward();
      bottleneck.backward();
      bottleneck.step();
    }
  }
  bottleneck.finish();

  // Fourth: keep the g-nets instead of the weights, and see what the file is worth.
  const std::string path = argc > 1 ? argv[1] : "digits.gbz";
  const auto bytes = bottleneck.save(path, {.overwrite = true});
  bottleneck.load(path);
  const torch::NoGradGuard no_grad;
  const auto held_out = data.test.range(0, data.test.size());
  const double right =
      model->forward(held_out.inputs).argmax(1).eq(held_out.targets).sum().item<double>();
  const double percent = 100 * right / static_cast<double>(data.test.size());
  std::printf("%lld bytes, %.1f %% of %lld held-out digits right\n", static_cast<long long>(bytes),
              percent, static_cast<long long>(data.test.size()));
  return percent >= kLeastPercent ? 0 : 1;
} catch (const std::exception& x) {
  std::fprintf(stderr, "%s\n", x.what());
  return 1;
}
