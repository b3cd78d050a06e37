// Associated learning with modules of one's own: three layers read digits, each with losses of its
// own and without a gradient from the layers behind it.
//   associated_layers [EPOCHS]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gbcompress/associated.h"
#include "gbcompress/model.h"

namespace {

namespace nn = torch::nn;
using gbcompress::AssociatedLayer;

constexpr std::int64_t kBatch = 64, kClasses = 10, kCode = 32;

/// f: one layer of the net; b: the bridge from its output to the code; g and h: the autoencoder of
/// the code before it. The losses are those of the strategy "al".
AssociatedLayer layer(std::int64_t inputs, std::int64_t outputs, bool first) {
  const std::int64_t before = first ? kClasses : kCode;
  gbcompress::AssociatedOptions options;
  options.encoder.lr = options.autoencoder.lr = 1e-3;
  options.first = first;  // the code before is the label
  return AssociatedLayer(
      {.f = gbcompress::part_of(nn::Sequential(nn::Linear(inputs, outputs), nn::ReLU())),
       .b = gbcompress::part_of(nn::Sequential(nn::Linear(outputs, 128), nn::ReLU(),
                                               nn::Linear(128, kCode), nn::Tanh())),
       .g = gbcompress::part_of(nn::Sequential(nn::Linear(before, kCode), nn::Tanh())),
       .h = gbcompress::part_of(nn::Linear(kCode, before))},
      options);
}

double right_percent(std::span<const AssociatedLayer> layers, const gbcompress::Dataset& data) {
  const gbcompress::Batch all = data.range(0, data.size());
  const at::Tensor scores = gbcompress::infer(layers, all.inputs.flatten(1));
  return 100 * scores.argmax(1).eq(all.targets).to(at::kDouble).mean().item<double>();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 30;
  torch::manual_seed(0);
  const gbcompress::Data data = gbcompress::open_data("digits");
  std::vector<AssociatedLayer> layers;
  layers.push_back(layer(64, 128, true));
  layers.push_back(layer(128, 64, false));
  layers.push_back(layer(64, 64, false));
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = torch::randperm(data.train.size());
    const auto all = data.train.range(0, data.train.size());
    for (std::int64_t first = 0; first + kBatch <= data.train.size(); first += kBatch) {
      const auto rows = order.narrow(0, first, kBatch);
      AssociatedLayer::Signals signals = {
          all.inputs.index_select(0, rows).flatten(1),
          torch::one_hot(all.targets.index_select(0, rows), kClasses).to(at::kFloat)};
      for (AssociatedLayer& one : layers) {
        signals = one.forward(signals);
        one.backward_and_update();
      }
    }
  }
  double percent = 0;
  for (std::size_t count = 1; count <= layers.size(); ++count) {
    percent = right_percent(std::span(layers).first(count), data.test);
    std::printf("%zu of %zu layers: %.2f %% of %lld digits\n", count, layers.size(), percent,
                static_cast<long long>(data.test.size()));
  }
  return percent > 90 ? 0 : 1;
} catch (const std::exception& x) {
  std::fprintf(stderr, "%s\n", x.what());
  return 1;
}
