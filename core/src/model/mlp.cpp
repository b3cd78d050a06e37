#include <torch/torch.h>

#include <charconv>
#include <map>

#include "gbcompress/error.h"
#include "model/builtin.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::size_t kMaxLayers = 64;
constexpr std::int64_t kMaxWeights = 1 << 30;  // 4 GiB; files bound themselves, options do not

struct DenseLayer {
  std::string name;
  std::int64_t inputs, outputs;
};

[[noreturn]] void refuse(const ModelRequest& request, const std::string& what) {
  throw Error(Errc::kUsage, "`arch` " + printable(request.arch) + ": " + what +
                                "; write the widths as in mlp:784-300-10");
}

std::vector<DenseLayer> layers_from_options(const ModelRequest& request) {
  std::vector<std::int64_t> widths;
  const char* at = request.options.data();
  const char* const end = at + request.options.size();
  while (true) {
    std::int64_t width = 0;
    const auto [stop, error] = std::from_chars(at, end, width);
    if (error != std::errc() || width < 1 || width > kMaxWidth)
      refuse(request, "every width must be a number from 1 to 1048576");
    widths.push_back(width);
    if (stop == end) break;
    if (*stop != '-') refuse(request, "widths are separated by '-'");
    at = stop + 1;
  }
  if (widths.size() < 2 || widths.size() > kMaxLayers + 1)
    refuse(request, "2 to " + std::to_string(kMaxLayers + 1) + " widths are needed");
  std::vector<DenseLayer> layers;
  std::int64_t weights = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layers.push_back({std::to_string(2 * i), widths[i], widths[i + 1]});
    weights += widths[i] * widths[i + 1];
  }
  if (weights > kMaxWeights) refuse(request, "these widths make more than 1073741824 weights");
  return layers;
}

/// The matrices named "<number>.weight", in the order of their numbers.
std::vector<DenseLayer> layers_from_weights(const ModelRequest& request) {
  std::map<int, DenseLayer> found;
  for (const ParameterInfo& weight : request.weights) {
    const auto dot = weight.name.find('.');
    if (dot == std::string::npos || weight.name.substr(dot) != ".weight") continue;
    int number = 0;
    const auto [stop, error] =
        std::from_chars(weight.name.data(), weight.name.data() + dot, number);
    if (error != std::errc() || stop != weight.name.data() + dot || weight.shape.size() != 2)
      continue;
    if (weight.shape[0] < 1 || weight.shape[0] > kMaxWidth || weight.shape[1] < 1 ||
        weight.shape[1] > kMaxWidth)
      refuse(request, printable(weight.name) + " has a width outside 1 to 1048576");
    found.emplace(number, DenseLayer{weight.name.substr(0, dot), weight.shape[1], weight.shape[0]});
  }
  if (request.weights.empty()) refuse(request, "the widths are missing");
  if (found.empty())
    throw Error(Errc::kShapeMismatch,
                "the tensors do not fit `arch` " + printable(request.arch) +
                    ": it has matrices named 0.weight, 2.weight, ..., the file has none of them");
  if (found.size() > kMaxLayers) refuse(request, "the file has more than 64 layers");
  std::vector<DenseLayer> layers;
  for (auto& [number, layer] : found) {
    if (!layers.empty() && layers.back().outputs != layer.inputs)
      throw Error(Errc::kShapeMismatch,
                  layers.back().name + ".weight gives " + std::to_string(layers.back().outputs) +
                      " values, " + layer.name + ".weight takes " + std::to_string(layer.inputs) +
                      "; the layers do not form an mlp");
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// Nets saved without any bias exist; one bias alone that is missing is a damaged file.
bool wants_bias(const ModelRequest& request) {
  if (request.weights.empty() || !request.options.empty()) return true;
  for (const ParameterInfo& weight : request.weights)
    if (weight.local_name == "bias") return true;
  return false;
}

}  // namespace

BuiltModel build_mlp(const ModelRequest& request) {
  const std::vector<DenseLayer> layers =
      request.options.empty() ? layers_from_weights(request) : layers_from_options(request);
  const bool bias = wants_bias(request);
  torch::nn::Sequential net;
  std::vector<Stage> stages;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    torch::nn::Linear linear(
        torch::nn::LinearOptions(layers[i].inputs, layers[i].outputs).bias(bias));
    net->push_back(std::string(layers[i].name), linear);
    torch::nn::Sequential stage(linear);
    if (i + 1 < layers.size()) {
      torch::nn::ReLU relu;
      net->push_back("relu" + std::to_string(i + 1), relu);
      stage->push_back(relu);
    }
    stages.push_back({layers[i].name,
                      [stage](const at::Tensor& x) mutable { return stage->forward(x); },
                      stage.ptr()});
  }
  return {net.ptr(),
          [net](const at::Tensor& x) mutable { return net->forward(x); },
          {layers.front().inputs},
          std::move(stages)};
}

BuiltModel build_lenet_300_100(const ModelRequest& request) {
  if (!request.options.empty())
    throw Error(Errc::kUsage, "lenet-300-100 takes no options; for other widths use `arch` mlp:" +
                                  printable(request.options));
  return build_mlp({request.arch, "784-300-100-10", request.weights});
}

}  // namespace gbcompress
