#include <torch/torch.h>

#include <charconv>

#include "gbcompress/error.h"
#include "model/basic_block.h"
#include "model/builtin.h"

namespace gbcompress {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kMaxClasses = 1 << 20;

struct CifarResNetImpl : nn::Module {
  CifarResNetImpl(int blocks, std::int64_t classes)
      : conv1(register_module("conv1", conv3x3(3, 16, 1))),
        bn1(register_module("bn1", nn::BatchNorm2d(16))) {
    std::int64_t inputs = 16;
    for (int stage = 0; stage < 3; ++stage) {
      const std::int64_t outputs = std::int64_t{16} << stage;
      for (int block = 0; block < blocks; ++block, inputs = outputs)
        stages[stage]->push_back(BasicBlock(inputs, outputs));
      register_module("layer" + std::to_string(stage + 1), stages[stage]);
    }
    linear = register_module("linear", nn::Linear(64, classes));
  }

  at::Tensor begin(const at::Tensor& images) {
    return at::relu(bn1->forward(conv1->forward(images)));
  }
  at::Tensor read_out(const at::Tensor& x) { return linear->forward(x.mean({2, 3})); }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin(images);
    for (nn::Sequential& stage : stages) x = stage->forward(x);
    return read_out(x);
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential stages[3];
  nn::Linear linear{nullptr};
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
  std::vector<Stage> stages;
  stages.push_back({"conv1", [net](const at::Tensor& x) { return net->begin(x); },
                    nn::Sequential(net->conv1, net->bn1, nn::ReLU()).ptr()});
  for (int layer = 0; layer < 3; ++layer)
    for (const auto& child : net->stages[layer]->named_children()) {
      const auto block = std::dynamic_pointer_cast<BasicBlockImpl>(child.value());
      stages.push_back({"layer" + std::to_string(layer + 1) + "." + child.key(),
                        [block](const at::Tensor& x) { return block->forward(x); }, block});
    }
  stages.push_back({"linear", [net](const at::Tensor& x) { return net->read_out(x); },
                    nn::Sequential(nn::AdaptiveAvgPool2d(1), nn::Flatten(), net->linear).ptr()});
  return {
      net, [net](const at::Tensor& x) { return net->forward(x); }, {3, 32, 32}, std::move(stages)};
}

}  // namespace gbcompress
