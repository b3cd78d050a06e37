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

  at::Tensor pooled(torch::nn::Conv2d& conv, const at::Tensor& x) {
    return at::max_pool2d(at::relu(conv->forward(x)), 2);
  }
  at::Tensor hidden(const at::Tensor& x) { return at::relu(fc1->forward(x.flatten(1))); }
  at::Tensor forward(const at::Tensor& images) {
    return fc2->forward(hidden(pooled(conv2, pooled(conv1, images))));
  }
};

}  // namespace

BuiltModel build_lenet5(const ModelRequest& request) {
  if (!request.options.empty()) throw Error(Errc::kUsage, "--arch lenet5 takes no options");
  auto net = std::make_shared<LeNet5Impl>();
  return {net,
          [net](const at::Tensor& x) { return net->forward(x); },
          {1, 28, 28},
          {{"conv1", [net](const at::Tensor& x) { return net->pooled(net->conv1, x); },
            net->conv1.ptr()},
           {"conv2", [net](const at::Tensor& x) { return net->pooled(net->conv2, x); },
            net->conv2.ptr()},
           {"fc1", [net](const at::Tensor& x) { return net->hidden(x); }, net->fc1.ptr()},
           {"fc2", [net](const at::Tensor& x) { return net->fc2->forward(x); }, net->fc2.ptr()}}};
}

}  // namespace gbcompress
