#include <torch/torch.h>

#include "gbcompress/error.h"
#include "model/builtin.h"

namespace gbcompress {
namespace {

struct LeNet5Impl : torch::nn::Module {
  torch::nn::Conv2d conv1{register_module("conv1", torch::nn::Conv2d(1, 20, 5))};
  torch::nn::Conv2d conv2{register_module("conv2", torch::nn::Conv2d(20, 50, 5))};
  torch::nn::Linear fc1{register_module("fc1", torch::nn::Linear(50 * 4 * 4, 500))};
  torch::nn::Linear fc2{register_module("fc2", torch::nn::Linear(500, 10))};

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::max_pool2d(at::relu(conv1->forward(images)), 2);
    x = at::max_pool2d(at::relu(conv2->forward(x)), 2);
    return fc2->forward(at::relu(fc1->forward(x.flatten(1))));
  }
};

}  // namespace

BuiltModel build_lenet5(const ModelRequest& request) {
  if (!request.options.empty()) throw Error(Errc::kUsage, "--arch lenet5 takes no options");
  auto net = std::make_shared<LeNet5Impl>();
  return {net, [net](const at::Tensor& x) { return net->forward(x); }, {1, 28, 28}};
}

}  // namespace gbcompress
