#include <torch/torch.h>

#include "../common/channels_last.h"
#include "nets.h"
#include "options.h"
#include "residual.h"

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;

/// A chain of links, each a Sequential of its own; parameters are called "LINK.LAYER.weight".
struct ChainImpl : nn::Module {
  void add(const std::string& name, nn::Sequential link) {
    links.push_back(register_module(name, std::move(link)));
    names.push_back(name);
  }
  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < links.size(); ++i) x = step(i, x);
    return x;
  }
  at::Tensor step(std::size_t link, const at::Tensor& x) {
    return links[link]->forward(channels_last(x));
  }
  std::vector<nn::Sequential> links;
  std::vector<std::string> names;
};

BuiltModel built(const std::shared_ptr<ChainImpl>& net, std::vector<std::int64_t> input) {
  std::vector<Stage> stages;
  for (std::size_t i = 0; i < net->links.size(); ++i)
    stages.push_back({net->names[i], [net, i](const at::Tensor& x) { return net->step(i, x); },
                      net->links[i].ptr()});
  return {net, [net](const at::Tensor& x) { return net->forward(x); }, std::move(input),
          std::move(stages)};
}

nn::Conv2d conv(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel) {
  return nn::Conv2d(nn::Conv2dOptions(inputs, outputs, kernel).padding(kernel / 2));
}

}  // namespace

BuiltModel simple_vgg(const ModelRequest& request) {
  const Options options(request, {"CHANNELS", "CLASSES"});
  const std::vector<std::int64_t> channels = channels_of(request, options);
  const std::int64_t pixels = std::int64_t{1024} >> (2 * channels.size());
  const std::int64_t inputs = channels.back() * pixels;
  auto net = std::make_shared<ChainImpl>();
  std::int64_t before = 3;
  int number = 0;
  for (const std::int64_t outputs : channels) {
    net->add("conv" + std::to_string(++number),
             nn::Sequential(conv(before, outputs, 3), nn::ELU(), nn::MaxPool2d(2)));
    before = outputs;
  }
  const std::int64_t classes = options.classes(1, "fc.1.weight");
  net->add("fc", nn::Sequential(nn::Flatten(), nn::Linear(inputs, classes)));
  return built(net, {3, 32, 32});
}

BuiltModel lenet_dtp(const ModelRequest& request) {
  const Options options(request, {"CLASSES"});
  auto net = std::make_shared<ChainImpl>();
  const auto pool = [] { return nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)); };
  net->add("conv1", nn::Sequential(conv(1, 32, 5), nn::ELU(), pool()));
  net->add("conv2", nn::Sequential(conv(32, 64, 5), nn::ELU(), pool()));
  net->add("fc1", nn::Sequential(nn::Flatten(), nn::Linear(64 * 7 * 7, 512), nn::ELU()));
  net->add("fc2", nn::Sequential(nn::Linear(512, options.classes(0, "fc2.0.weight"))));
  return built(net, {1, 28, 28});
}

BuiltModel vgg11(const ModelRequest& request) {
  const Options options(request, {"CLASSES"});
  auto net = std::make_shared<ChainImpl>();
  std::int64_t inputs = 3;
  int number = 0;
  for (const auto& [outputs, pooled] : std::vector<std::pair<std::int64_t, bool>>{{64, true},
                                                                                  {128, true},
                                                                                  {256, false},
                                                                                  {256, true},
                                                                                  {512, false},
                                                                                  {512, true},
                                                                                  {512, false},
                                                                                  {512, true}}) {
    nn::Sequential link(conv(inputs, outputs, 3), nn::BatchNorm2d(outputs), nn::ReLU());
    if (pooled) link->push_back(nn::MaxPool2d(2));
    net->add("conv" + std::to_string(++number), link);
    inputs = outputs;
  }
  net->add("fc",
           nn::Sequential(nn::Flatten(), nn::Linear(inputs, options.classes(0, "fc.1.weight"))));
  return built(net, {3, 32, 32});
}

BuiltModel vgg_al(const ModelRequest& request) {
  const Options options(request, {"CLASSES"});
  auto net = std::make_shared<ChainImpl>();
  std::int64_t inputs = 3;
  int number = 0;
  for (const auto& block :
       std::vector<std::vector<std::int64_t>>{{128, 256}, {256, 512}, {512}, {512}}) {
    nn::Sequential link;
    for (const std::int64_t outputs : block) {
      link->push_back(nn::Conv2d(nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false)));
      link->push_back(nn::BatchNorm2d(outputs));
      link->push_back(nn::ReLU());
      inputs = outputs;
    }
    link->push_back(nn::MaxPool2d(2));
    net->add("block" + std::to_string(++number), link);
  }
  net->add("fc", nn::Sequential(nn::Flatten(), nn::Linear(2048, 2500), nn::Sigmoid(),
                                nn::Linear(2500, options.classes(0, "fc.3.weight"))));
  return built(net, {3, 32, 32});
}

namespace {

BuiltModel resnet(const ModelRequest& request, const std::vector<int>& blocks) {
  const Options options(request, {"CLASSES", "plain"});
  const bool norms = !options.is_plain(1, "stem.1.weight");
  auto net = std::make_shared<ChainImpl>();
  nn::Sequential stem(nn::Conv2d(nn::Conv2dOptions(3, 64, 3).padding(1).bias(false)));
  if (norms)
    stem->push_back(nn::BatchNorm2d(64));
  else
    stem->push_back(nn::Identity());
  stem->push_back(nn::ReLU());
  net->add("stem", stem);
  std::int64_t inputs = 64;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t outputs = std::int64_t{64} << i;
    nn::Sequential link;
    for (int block = 0; block < blocks[i]; ++block, inputs = outputs)
      link->push_back(ResidualBlock(inputs, outputs, i > 0 && block == 0 ? 2 : 1, norms));
    net->add("layer" + std::to_string(i + 1), link);
  }
  net->add("fc", nn::Sequential(nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                                nn::Linear(512, options.classes(0, "fc.2.weight"))));
  return built(net, {3, 32, 32});
}

}  // namespace

BuiltModel resnet18(const ModelRequest& request) { return resnet(request, {2, 2, 2, 2}); }
BuiltModel resnet34(const ModelRequest& request) { return resnet(request, {3, 4, 6, 3}); }

}  // namespace gbcompress::nets
