#include "circulant_model.h"

#include <gbcompress/error.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

/// y = x W^T + b, with a circulant W that is kept dense, so that any linear-algebra library can
/// multiply with it.
struct CirculantLinearImpl : torch::nn::Module {
  explicit CirculantLinearImpl(std::int64_t n) {
    const torch::Tensor i = torch::arange(n);
    const torch::Tensor place = (i.unsqueeze(0) - i.unsqueeze(1)).remainder(n);
    const double bound = 1 / std::sqrt(static_cast<double>(n));
    const torch::Tensor first_row = torch::empty({n}).uniform_(-bound, bound);
    weight = register_parameter("weight", first_row.index({place}).contiguous());
    bias = register_parameter("bias", torch::zeros({n}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::nn::functional::linear(x, weight, bias);
  }
  torch::Tensor weight, bias;
};
TORCH_MODULE(CirculantLinear);

struct CirculantNetImpl : torch::nn::Module {
  CirculantNetImpl(std::int64_t inputs, std::int64_t classes)
      : mix(register_module("mix", CirculantLinear(inputs))),
        out(register_module("out", torch::nn::Linear(inputs, classes))) {}
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(mix(x.flatten(1)))); }
  CirculantLinear mix;
  torch::nn::Linear out;
};

}  // namespace

gbcompress::BuiltModel make_circulant_net(const gbcompress::ModelRequest& request) {
  long long inputs = 64, classes = 10;
  char rest = 0;
  if (!request.options.empty() &&
      (std::sscanf(request.options.c_str(), "%lld-%lld%c", &inputs, &classes, &rest) != 2 ||
       inputs < 1 || inputs > 65'536 || classes < 1 || classes > 65'536))
    throw gbcompress::Error(gbcompress::Errc::kUsage,
                            "circulant-net takes INPUTS-CLASSES, as in circulant-net:64-10");
  auto net = std::make_shared<CirculantNetImpl>(inputs, classes);
  return {.module = net,
          .forward = [net](const at::Tensor& x) { return net->forward(x); },
          .input_shape = {inputs}};
}
