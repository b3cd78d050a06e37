#include <gbcompress/error.h>
#include <torch/torch.h>

#include <charconv>

#include "../common/channels_last.h"
#include "nets.h"

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kMaxChannels = 4096;

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

/// The channels of the first layer: of the options, else of the weights, else the usual ones.
std::int64_t channels_of(const ModelRequest& request, const std::string& first,
                         std::int64_t usual) {
  if (!request.options.empty()) {
    std::int64_t channels = 0;
    const char* end = request.options.data() + request.options.size();
    const auto [stop, error] = std::from_chars(request.options.data(), end, channels);
    if (error != std::errc() || stop != end || channels < 1 || channels > kMaxChannels)
      throw Error(Errc::kUsage,
                  "--arch " + request.arch + ": the channels of the first layer must be 1 to 4096");
    return channels;
  }
  for (const ParameterInfo& weight : request.weights)
    if (weight.name == first && weight.shape.size() == 4 && weight.shape[0] >= 1 &&
        weight.shape[0] <= kMaxChannels)
      return weight.shape[0];
  return usual;
}

void take_no_options(const ModelRequest& request) {
  if (!request.options.empty())
    throw Error(Errc::kUsage,
                "--arch " + request.arch.substr(0, request.arch.find(':')) + " takes no options");
}

}  // namespace

BuiltModel simple_vgg(const ModelRequest& request) {
  const std::int64_t c = channels_of(request, "conv1.0.weight", 128);
  auto net = std::make_shared<ChainImpl>();
  std::int64_t inputs = 3;
  int number = 0;
  for (const std::int64_t outputs : {c, c, 2 * c, 2 * c, 4 * c}) {
    net->add("conv" + std::to_string(++number),
             nn::Sequential(conv(inputs, outputs, 3), nn::ELU(), nn::MaxPool2d(2)));
    inputs = outputs;
  }
  net->add("fc", nn::Sequential(nn::Flatten(), nn::Linear(inputs, 10)));
  return built(net, {3, 32, 32});
}

BuiltModel lenet_dtp(const ModelRequest& request) {
  take_no_options(request);
  auto net = std::make_shared<ChainImpl>();
  const auto pool = [] { return nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)); };
  net->add("conv1", nn::Sequential(conv(1, 32, 5), nn::ELU(), pool()));
  net->add("conv2", nn::Sequential(conv(32, 64, 5), nn::ELU(), pool()));
  net->add("fc1", nn::Sequential(nn::Flatten(), nn::Linear(64 * 7 * 7, 512), nn::ELU()));
  net->add("fc2", nn::Sequential(nn::Linear(512, 10)));
  return built(net, {1, 28, 28});
}

BuiltModel vgg11(const ModelRequest& request) {
  take_no_options(request);
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
  net->add("fc", nn::Sequential(nn::Flatten(), nn::Linear(inputs, 10)));
  return built(net, {3, 32, 32});
}

}  // namespace gbcompress::nets
