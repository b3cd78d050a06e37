// 784-256-256-64-10 on MNIST with every weight generated, from random weights: the recipe of
// target_ratio in a loop of one's own. Prints the file's bytes and its accuracy on the test set.
//   gnets_mnist DIR OUT.gbz [RATIO=20 [SEED=0 [EPOCHS=6]]]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"

namespace {

namespace nn = torch::nn;
using gbcompress::GenomicBottleneck;

constexpr std::int64_t kBatch = 128;

void train(nn::Sequential& model, GenomicBottleneck& gnets, const gbcompress::Dataset& data,
           std::int64_t epochs) {
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const at::Tensor order = torch::randperm(data.size());
    const auto* row = order.const_data_ptr<std::int64_t>();
    for (std::int64_t first = 0; first < data.size(); first += kBatch) {
      const std::int64_t end = std::min(first + kBatch, data.size());
      const auto batch = data.gather({row + first, row + end});
      gnets.zero_grad();
      gnets.predict_weights();
      nn::functional::cross_entropy(model->forward(batch.inputs.flatten(1)), batch.targets)
          .backward();
      gnets.backward();
      gnets.step();
    }
  }
}

double accuracy(nn::Sequential& model, const gbcompress::Dataset& data) {
  const torch::NoGradGuard no_grad;
  const auto all = data.range(0, data.size());
  return 100 * model->forward(all.inputs.flatten(1))
                   .argmax(1)
                   .eq(all.targets)
                   .to(torch::kDouble)
                   .mean()
                   .item<double>();
}

double number(int argc, char** argv, int at, double otherwise) {
  return argc > at ? std::strtod(argv[at], nullptr) : otherwise;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: gnets_mnist DIR OUT.gbz [RATIO [SEED [EPOCHS]]]\n");
    return 2;
  }
  const auto seed = static_cast<std::uint64_t>(number(argc, argv, 4, 0));
  const auto epochs = static_cast<std::int64_t>(number(argc, argv, 5, 6));
  torch::manual_seed(seed);
  const gbcompress::Data data = gbcompress::open_data(std::string("mnist:") + argv[1]);
  nn::Sequential model(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(),
                       nn::Linear(256, 64), nn::ReLU(), nn::Linear(64, 10));
  gbcompress::PluginHost plugins;
  plugins.load_installed();
  gbcompress::BottleneckOptions options;
  options.target_ratio = number(argc, argv, 3, 20);
  options.steps = epochs * ((data.train.size() + kBatch - 1) / kBatch);
  options.seed = seed;
  GenomicBottleneck gnets(*model, plugins.registry(), options);
  train(model, gnets, data.train, epochs);
  gnets.finish();
  const std::int64_t bytes = gnets.save(argv[2], {.overwrite = true});
  std::printf("%lld bytes, %.1fx smaller, %.2f %% of the test set right\n",
              static_cast<long long>(bytes), gnets.ratio().bytes, accuracy(model, data.test));
  return 0;
} catch (const std::exception& x) {
  std::fprintf(stderr, "%s\n", x.what());
  return 1;
}
