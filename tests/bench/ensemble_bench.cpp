// Milliseconds of a training step (forward, backward, AdamW) of N small MLPs: EnsembleMlp, and N
// separate networks of LibTorch, alternating. One JSON line for each N.
//   gbc_ensemble_bench [--seconds S] [--nets N,N,...]
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "gbcompress/optimizer.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace nn = torch::nn;

const std::vector<std::int64_t> kWidths = {32, 64, 64, 1};
constexpr std::int64_t kBatch = 256;

/// Milliseconds of one call, the least of some rounds.
template <typename Step>
double least(double seconds, const Step& step) {
  double best = 1e30;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int round = 0; round < 3 || Clock::now() < end; ++round) {
    const auto begin = Clock::now();
    step();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return best;
}

void measure(std::int64_t nets, double seconds) {
  const at::Tensor x = torch::randn({kBatch, kWidths.front()}), y = torch::randn({kBatch, 1});
  gbcompress::EnsembleMlp ensemble(nets, kWidths, 1);
  gbcompress::AdamW together(ensemble.parameters(), {});
  const auto step_together = [&] {
    ensemble.zero_grad();
    (ensemble.forward(x) - y).square().mean({1, 2}).sum().backward();
    together.step(ensemble.gradients());
  };
  std::vector<nn::Sequential> separate;
  std::vector<at::Tensor> parameters;
  for (std::int64_t i = 0; i < nets; ++i) {
    nn::Sequential net;
    for (std::size_t l = 1; l < kWidths.size(); ++l) {
      if (l > 1) net->push_back(nn::ReLU());
      net->push_back(nn::Linear(kWidths[l - 1], kWidths[l]));
    }
    for (const at::Tensor& p : net->parameters()) parameters.push_back(p);
    separate.push_back(net);
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  const auto step_separate = [&] {
    optimizer.zero_grad();
    for (nn::Sequential& net : separate) (net->forward(x) - y).square().mean().backward();
    optimizer.step();
  };
  const double ours = least(seconds, step_together), theirs = least(seconds, step_separate);
  std::printf(
      "{\"nets\": %lld, \"ensemble_ms\": %.4f, \"separate_ms\": %.4f, \"speed_up\": %.2f}\n",
      static_cast<long long>(nets), ours, theirs, theirs / ours);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1;
  std::string list = "1,4,16,64,256";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--nets") == 0) list = argv[i + 1];
  }
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    measure(std::atoll(word.c_str()), seconds);
  return 0;
}
