// Trains many small digit classifiers as one, each on a resampled set of its own; then lets them
// vote.
//   ensemble [MEMBERS]
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "gbcompress/model.h"
#include "gbcompress/optimizer.h"

namespace {

constexpr std::int64_t kBatch = 32;

/// Seconds of one epoch over the same batches, as N separate networks.
double separate_seconds(std::int64_t members, const gbcompress::Dataset& data) {
  std::vector<torch::nn::Sequential> nets;
  std::vector<std::unique_ptr<torch::optim::AdamW>> optimizers;
  for (std::int64_t m = 0; m < members; ++m) {
    nets.push_back(torch::nn::Sequential(torch::nn::Linear(64, 12), torch::nn::ReLU(),
                                         torch::nn::Linear(12, 10)));
    optimizers.push_back(std::make_unique<torch::optim::AdamW>(nets.back()->parameters()));
  }
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t first = 0; first + kBatch <= data.size(); first += kBatch) {
    const auto batch = data.range(first, kBatch);
    for (std::int64_t m = 0; m < members; ++m) {
      optimizers[m]->zero_grad();
      torch::nn::functional::cross_entropy(nets[m]->forward(batch.inputs), batch.targets)
          .backward();
      optimizers[m]->step();
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t members = argc > 1 ? std::atoll(argv[1]) : 50;
  torch::manual_seed(0);
  const gbcompress::Data data = gbcompress::open_data("digits");
  gbcompress::EnsembleMlp nets(members, {64, 12, 10});
  gbcompress::AdamW adamw(nets.parameters(), {.lr = 1e-2, .weight_decay = 0.01});

  // Every member learns from its own draw, so inputs have a dimension more: [members, batch, 64].
  const auto all = data.train.range(0, data.train.size());
  double seconds = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t first = 0; first + kBatch <= data.train.size(); first += kBatch) {
      const auto rows = torch::randint(data.train.size(), {members * kBatch});
      const auto x = all.inputs.index_select(0, rows).flatten(1).view({members, kBatch, -1});
      const auto y = all.targets.index_select(0, rows);
      nets.zero_grad();
      // The mean over members times their number: each keeps the gradient it would have alone.
      const auto loss = torch::nn::functional::cross_entropy(nets.forward(x).flatten(0, 1), y);
      (loss * static_cast<double>(members)).backward();
      adamw.step(nets.gradients());
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const torch::NoGradGuard no_grad;
  const auto held_out = data.test.range(0, data.test.size());
  const auto outputs =
      nets.forward(held_out.inputs.flatten(1)).softmax(-1);  // [members, batch, 10]
  const auto right = [&](const torch::Tensor& scores) {
    return 100 * scores.argmax(-1).eq(held_out.targets).to(torch::kFloat).mean(-1);
  };
  std::printf("%lld networks: one alone %.2f %% on average, all together %.2f %% of %lld digits\n",
              static_cast<long long>(members), right(outputs).mean().item<double>(),
              right(outputs.mean(0)).item<double>(), static_cast<long long>(data.test.size()));
  torch::AutoGradMode with_grad(true);
  const double separate = separate_seconds(members, data.train);
  std::printf("an epoch takes %.3f s as one, %.3f s one by one: %.1f times faster\n", seconds,
              separate, separate / seconds);
  return 0;
} catch (const std::exception& x) {
  std::fprintf(stderr, "%s\n", x.what());
  return 1;
}
