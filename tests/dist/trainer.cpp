// One rank of a small training, for what the command line does not show:
//   gbc_dist_trainer --timeout S SCENARIO OUT [ARGUMENTS]      rank and world from the environment
//   gradient OUT PLACEMENT   weights, then all gradients of one step on a batch of 64, as float32
//   traffic OUT PLACEMENT    bytes sent in three steps, and what the formulas say, as text
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 20, 3)))),
        hidden(register_module("hidden", torch::nn::Linear(20 * 36, 90))),
        last(register_module("last", torch::nn::Linear(90, 7))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return last(torch::relu(hidden(torch::relu(conv(x)).flatten(1))));
  }
  torch::nn::Conv2d conv;
  torch::nn::Linear hidden, last;
};
TORCH_MODULE(Net);

BottleneckOptions options_of(const std::string& placement) {
  BottleneckOptions options;
  options.min_elements = 500;
  options.gnet.tile_weights = 900;
  options.gnet.hidden = {8};
  options.gradient_scale = GradientScale::kNone;
  options.seed = 3;
  options.placement = *parse_placement(placement);
  return options;
}

void write(std::ofstream& out, const at::Tensor& values) {
  const at::Tensor floats = values.detach().to(torch::kFloat).contiguous();
  out.write(static_cast<const char*>(floats.data_ptr()),
            static_cast<std::streamsize>(floats.nbytes()));
}

/// This rank's part of a batch of 64; the mean over ranks of the mean losses is the batch's.
void one_step(Net& net, GenomicBottleneck& bottleneck, Group& group, int step) {
  torch::manual_seed(50 + step);
  const auto x = torch::randn({64, 3, 8, 8}), y = torch::randint(7, {64});
  const std::int64_t rows = 64 / group.world(), first = rows * group.rank();
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  torch::nn::functional::cross_entropy(net->forward(x.narrow(0, first, rows)),
                                       y.narrow(0, first, rows))
      .backward();
  bottleneck.backward();
}

void gradient(Net& net, GenomicBottleneck& bottleneck, Group& group, const std::string& path) {
  one_step(net, bottleneck, group, 0);
  std::vector<at::Tensor> results;
  for (const auto& layer : bottleneck.layers()) results.push_back(layer.weights.clone());
  for (const auto& layer : bottleneck.layers()) {
    // A row is there on its owner alone, or on every rank.
    at::Tensor grad = layer.grad.clone();
    at::Tensor ranks = grad.abs().sum(1, /*keepdim=*/true).gt(0).to(torch::kFloat);
    group.all_reduce(grad).wait();
    group.all_reduce(ranks).wait();
    grad = grad / ranks.clamp_min(1);
    results.push_back(grad);
  }
  for (const auto& p : bottleneck.tensors()) {
    bool generated = false;
    for (const auto& layer : bottleneck.layers()) generated |= layer.name == p.info.name;
    if (!generated) results.push_back(p.tensor.grad());
  }
  if (group.rank() != 0) return;
  std::ofstream out(path, std::ios::binary);
  for (const auto& result : results) write(out, result);
}

void traffic(Net& net, GenomicBottleneck& bottleneck, Group& group, const std::string& path) {
  const Traffic before = group.traffic();
  for (int step = 0; step < 3; ++step) {
    one_step(net, bottleneck, group, step);
    bottleneck.step();
  }
  const std::int64_t sent = (group.traffic() - before).bytes();
  const std::vector<std::string> all = group.all_gather(std::to_string(sent));
  std::int64_t total = 0, weights = 0;
  for (const std::string& text : all) total += std::stoll(text);
  for (const auto& layer : bottleneck.layers()) weights += layer.weights.numel();
  if (group.rank() != 0) return;
  std::ofstream(path) << total << " " << weights << " " << gnet_parameters(bottleneck) << " "
                      << plain_parameters(bottleneck) << "\n";
}

int run(int argc, char** argv) {
  if (argc != 6) throw Error(Errc::kUsage, "--timeout S SCENARIO OUT PLACEMENT");
  const std::string scenario = argv[3], path = argv[4];
  const Launch launch = read_launch();
  set_log_rank(launch.rank, launch.world);
  PluginHost plugins;
  plugins.load_installed();
  GroupOptions group_options;
  group_options.timeout = std::chrono::seconds(std::stoi(argv[2]));
  const auto group = Group::open(launch, group_options);
  run_together(*group, [&] {
    torch::manual_seed(1);
    Net net;
    GenomicBottleneck bottleneck(*net, plugins.registry(), options_of(argv[5]), group.get());
    (scenario == "gradient" ? gradient : traffic)(net, bottleneck, *group, path);
  });
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) try {
  return gbcompress::run(argc, argv);
} catch (const std::exception& error) {
  gbcompress::log_line(error.what());
  return 1;
}
