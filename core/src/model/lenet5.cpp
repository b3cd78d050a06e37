#include <torch/torch.h>

#include "gbcompress/error.h"
#include "model/builtin.h"

namespace gbcompress {
namespace {

namespace nn = torch::nn;

struct LeNet5Impl : nn::Module {
  nn::Conv2d conv1{register_module("conv1", nn::Conv2d(1, 20, 5))};
  nn::Conv2d conv2{register_module("conv2", nn::Conv2d(20, 50, 5))};
  nn::Linear fc1{register_module("fc1", nn::Linear(50 * 4 * 4, 500))};
  nn::Linear fc2{register_module("fc2", nn::Linear(500, 10))};
  // The same layers as links of the chain.
  nn::Sequential links[4] = {nn::Sequential(conv1, nn::ReLU(), nn::MaxPool2d(2)),
                             nn::Sequential(conv2, nn::ReLU(), nn::MaxPool2d(2)),
                             nn::Sequential(nn::Flatten(), fc1, nn::ReLU()), nn::Sequential(fc2)};

  at::Tensor forward(at::Tensor x) {
    for (nn::Sequential& link : links) x = link->forward(x);
    return x;
  }
};

}  // namespace

BuiltModel build_lenet5(const ModelRequest& request) {
  if (!request.options.empty()) throw Error(Errc::kUsage, "`arch` lenet5 takes no options");
  auto net = std::make_shared<LeNet5Impl>();
  std::vector<Stage> stages;
  for (const std::size_t i : {0u, 1u, 2u, 3u})
    stages.push_back({std::vector{"conv1", "conv2", "fc1", "fc2"}[i],
                      [net, i](const at::Tensor& x) { return net->links[i]->forward(x); },
                      net->links[i].ptr()});
  return {
      net, [net](const at::Tensor& x) { return net->forward(x); }, {1, 28, 28}, std::move(stages)};
}

}  // namespace gbcompress
