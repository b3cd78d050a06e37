#include <torch/torch.h>

#include <charconv>

#include "gbcompress/error.h"
#include "model/builtin.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxClasses = 1 << 20;

torch::nn::Conv2d conv3x3(std::int64_t inputs, std::int64_t outputs, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, 3).stride(stride).padding(1).bias(false));
}

struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(std::int64_t inputs, std::int64_t outputs)
      : extra(outputs - inputs),
        conv1(register_module("conv1", conv3x3(inputs, outputs, extra ? 2 : 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(outputs))),
        conv2(register_module("conv2", conv3x3(outputs, outputs, 1))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(outputs))) {}

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = at::relu(bn1->forward(conv1->forward(x)));
    return at::relu(bn2->forward(conv2->forward(y)) + shortcut(x));
  }

  /// Option A: every second pixel, and zero planes in equal number before and behind.
  at::Tensor shortcut(const at::Tensor& x) const {
    if (extra == 0) return x;
    const at::Tensor half = x.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2);
    return at::constant_pad_nd(half, {0, 0, 0, 0, extra / 2, extra / 2});
  }

  std::int64_t extra;
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
};
TORCH_MODULE(BasicBlock);

struct CifarResNetImpl : torch::nn::Module {
  CifarResNetImpl(int blocks, std::int64_t classes)
      : conv1(register_module("conv1", conv3x3(3, 16, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(16))) {
    std::int64_t inputs = 16;
    for (int stage = 0; stage < 3; ++stage) {
      const std::int64_t outputs = std::int64_t{16} << stage;
      for (int block = 0; block < blocks; ++block, inputs = outputs)
        stages[stage]->push_back(BasicBlock(inputs, outputs));
      register_module("layer" + std::to_string(stage + 1), stages[stage]);
    }
    linear = register_module("linear", torch::nn::Linear(64, classes));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::relu(bn1->forward(conv1->forward(images)));
    for (torch::nn::Sequential& stage : stages) x = stage->forward(x);
    return linear->forward(x.mean({2, 3}));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Sequential stages[3];
  torch::nn::Linear linear{nullptr};
};

std::int64_t class_count(const ModelRequest& request) {
  if (!request.options.empty()) {
    std::int64_t classes = 0;
    const char* end = request.options.data() + request.options.size();
    const auto [stop, error] = std::from_chars(request.options.data(), end, classes);
    if (error != std::errc() || stop != end || classes < 1 || classes > kMaxClasses)
      throw Error(Errc::kUsage, "`arch` " + printable(request.arch) +
                                    ": the number of classes must be 1 to 1048576, as in "
                                    "resnet20:100");
    return classes;
  }
  for (const ParameterInfo& weight : request.weights)
    if (weight.name == "linear.weight" && weight.shape.size() == 2 && weight.shape[0] >= 1 &&
        weight.shape[0] <= kMaxClasses && weight.shape[1] == 64)
      return weight.shape[0];
  return 10;
}

}  // namespace

BuiltModel build_cifar_resnet(const ModelRequest& request, int blocks) {
  auto net = std::make_shared<CifarResNetImpl>(blocks, class_count(request));
  return {net, [net](const at::Tensor& x) { return net->forward(x); }, {3, 32, 32}};
}

}  // namespace gbcompress
