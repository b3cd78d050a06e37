// Chains of layers that the architecture's name spells out, as torch.nn.Sequential holds them.
#include <gbcompress/error.h>
#include <torch/torch.h>

#include <functional>
#include <optional>

#include "../common/channels_last.h"
#include "layer_text.h"
#include "nets.h"

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;
using Pair = LayerText::Pair;

constexpr std::size_t kMostLayers = 1024;
/// The description may come from a file that nobody checked: bounds of the weights of all layers
/// together (4 GiB), and of what a layer gives for two samples.
constexpr double kMostWeights = 1 << 30, kMostElements = 1 << 28;

/// Parameters are called "NUMBER.weight", as those of one Sequential of all layers.
struct SequentialNet : nn::Module {
  /// Elements of what a layer gives for this input, at most.
  using Elements = std::function<double(const at::Tensor&)>;

  template <typename Holder>
  void add(Holder layer, Elements most = elements_of) {
    register_module(std::to_string(layers.size()), layer);
    stages.back()->push_back(layer);
    layers.push_back([layer](const at::Tensor& x) mutable { return layer->forward(x); });
    elements.push_back(std::move(most));
  }
  static double elements_of(const at::Tensor& x) { return static_cast<double>(x.numel()); }
  at::Tensor run(std::size_t stage, const at::Tensor& x) {
    return stages[stage]->forward(channels_last(x));
  }
  std::vector<nn::Sequential> stages;
  std::vector<std::function<at::Tensor(const at::Tensor&)>> layers;
  std::vector<Elements> elements;  ///< of each layer
  double weights = 0;              ///< of all layers
};

void count_weights(SequentialNet& net, const LayerText& text,
                   std::initializer_list<std::int64_t> factors) {
  double weights = 1;
  for (const std::int64_t factor : factors) weights *= static_cast<double>(factor);
  net.weights += weights;
  if (net.weights > kMostWeights) text.refuse("brings the layers to more than 1073741824 weights");
}

/// Of maps with that many channels, or those of the input, and padding at every side.
SequentialNet::Elements elements_of_maps(std::optional<std::int64_t> channels, Pair padding) {
  return [channels, padding = std::move(padding)](const at::Tensor& x) {
    if (x.dim() != 4) return SequentialNet::elements_of(x);  // the layer refuses it
    double elements = static_cast<double>(x.size(0) * channels.value_or(x.size(1)));
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
      elements *=
          static_cast<double>(x.size(static_cast<std::int64_t>(side) + 2) + 2 * padding[side]);
    return elements;
  };
}

void add_linear(SequentialNet& net, LayerText& text) {
  text.takes({"in_features", "out_features", "bias"}, 2);
  const std::int64_t inputs = text.whole("in_features", 0, 1),
                     outputs = text.whole("out_features", 0, 1);
  count_weights(net, text, {inputs, outputs});
  net.add(nn::Linear(nn::LinearOptions(inputs, outputs).bias(text.flag("bias", true))),
          [inputs, outputs](const at::Tensor& x) {
            return SequentialNet::elements_of(x) / static_cast<double>(inputs) *
                   static_cast<double>(outputs);
          });
}

void add_conv(SequentialNet& net, LayerText& text) {
  text.takes({"in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
              "groups", "bias"},
             3);
  const std::int64_t inputs = text.whole("in_channels", 0, 1),
                     outputs = text.whole("out_channels", 0, 1),
                     groups = text.whole("groups", 1, 1);
  const Pair kernel = text.pair("kernel_size", {}, 1), padding = text.pair("padding", {0, 0}, 0);
  if (inputs % groups != 0 || outputs % groups != 0)
    text.refuse("has channels that its groups do not divide");
  count_weights(net, text, {inputs / groups, outputs, kernel[0], kernel[1]});
  net.add(nn::Conv2d(nn::Conv2dOptions(inputs, outputs, at::IntArrayRef(kernel))
                         .stride(at::IntArrayRef(text.pair("stride", {1, 1}, 1)))
                         .padding(at::IntArrayRef(padding))
                         .dilation(at::IntArrayRef(text.pair("dilation", {1, 1}, 1)))
                         .groups(groups)
                         .bias(text.flag("bias", true))),
          elements_of_maps(outputs, padding));
}

nn::BatchNormOptions norm_options(SequentialNet& net, LayerText& text) {
  text.takes({"num_features", "eps", "momentum", "affine", "track_running_stats"}, 1);
  const std::int64_t features = text.whole("num_features", 0, 1);
  count_weights(net, text, {4, features});
  return nn::BatchNormOptions(features)
      .eps(text.real("eps", 1e-5))
      .momentum(text.real("momentum", 0.1))
      .affine(text.flag("affine", true))
      .track_running_stats(text.flag("track_running_stats", true));
}

void add_max_pool(SequentialNet& net, LayerText& text) {
  text.takes({"kernel_size", "stride", "padding", "dilation", "ceil_mode"}, 1);
  const Pair kernel = text.pair("kernel_size", {}, 1), padding = text.pair("padding", {0, 0}, 0);
  net.add(nn::MaxPool2d(nn::MaxPool2dOptions(at::IntArrayRef(kernel))
                            .stride(at::IntArrayRef(text.pair("stride", kernel, 1)))
                            .padding(at::IntArrayRef(padding))
                            .dilation(at::IntArrayRef(text.pair("dilation", {1, 1}, 1)))
                            .ceil_mode(text.flag("ceil_mode", false))),
          elements_of_maps({}, padding));
}

template <typename Holder>
void add_plain(SequentialNet& net, LayerText& text) {
  text.takes({}, 0);
  net.add(Holder());
}

using Add = std::function<void(SequentialNet&, LayerText&)>;

const std::map<std::string, Add>& layer_types() {
  static const std::map<std::string, Add> types = {
      {"Linear", add_linear},
      {"Conv2d", add_conv},
      {"BatchNorm1d", [](SequentialNet& net,
                         LayerText& text) { net.add(nn::BatchNorm1d(norm_options(net, text))); }},
      {"BatchNorm2d", [](SequentialNet& net,
                         LayerText& text) { net.add(nn::BatchNorm2d(norm_options(net, text))); }},
      {"ReLU", add_plain<nn::ReLU>},
      {"Tanh", add_plain<nn::Tanh>},
      {"Sigmoid", add_plain<nn::Sigmoid>},
      {"Identity", add_plain<nn::Identity>},
      {"Flatten", add_plain<nn::Flatten>},
      {"ELU",
       [](SequentialNet& net, LayerText& text) {
         text.takes({"alpha"}, 0);
         net.add(nn::ELU(nn::ELUOptions().alpha(text.real("alpha", 1))));
       }},
      {"MaxPool2d", add_max_pool},
      {"AdaptiveAvgPool2d", [](SequentialNet& net, LayerText& text) {
         text.takes({"output_size"}, 1);
         const Pair size = text.pair("output_size", {}, 1);
         net.add(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({size[0], size[1]})),
                 [size](const at::Tensor& x) {
                   return static_cast<double>(x.size(0) * (x.dim() > 1 ? x.size(1) : 1)) *
                          static_cast<double>(size[0]) * static_cast<double>(size[1]);
                 });
       }}};
  return types;
}

/// Refuses layers that do not fit each other, by the first one that does not.
void check_shapes(SequentialNet& net, const std::vector<LayerText>& texts,
                  const std::vector<std::int64_t>& input) {
  const c10::NoGradGuard no_grad;
  net.eval();
  // Two samples: norms without running statistics take no single one.
  std::vector<std::int64_t> shape = input;
  shape.insert(shape.begin(), 2);
  double elements = 1;
  for (const std::int64_t side : shape) elements *= static_cast<double>(side);
  if (elements > kMostElements)
    throw Error(Errc::kUsage,
                "architecture sequential: two inputs have more than 268435456 elements");
  at::Tensor x = at::zeros(shape);
  for (std::size_t i = 0; i < texts.size(); ++i) try {
      if (net.elements[i](x) > kMostElements)
        texts[i].refuse("gives more than 268435456 elements for two inputs");
      x = net.layers[i](x);
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      std::string sizes;
      for (const std::int64_t size : x.sizes().slice(1))
        sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
      texts[i].refuse("cannot take an input of shape " + sizes + ": " +
                      printable(text.substr(0, text.find('\n'))));
    }
  net.train();
}

}  // namespace

BuiltModel sequential(const ModelRequest& request) {
  const std::vector<std::string> parts = split_outside(request.options, '/');
  if (parts.size() < 2)
    throw Error(Errc::kUsage,
                "architecture sequential needs the shape of an input and layers, a stage behind "
                "each '/': sequential:64/Linear(64,32),ReLU()/Linear(32,10)");
  const std::vector<std::int64_t> input =
      shape_of(parts[0], "architecture sequential: the shape of an input");
  auto net = std::make_shared<SequentialNet>();
  std::vector<LayerText> texts;
  for (std::size_t part = 1; part < parts.size(); ++part) {
    net->stages.emplace_back();
    for (const std::string& layer : split_outside(parts[part], ',')) {
      LayerText& text = texts.emplace_back(layer, texts.size());
      const auto type = layer_types().find(text.type());
      if (type == layer_types().end()) {
        std::string known;
        for (const auto& [name, add] : layer_types()) known += (known.empty() ? "" : ", ") + name;
        text.refuse("is none of the layers " + known);
      }
      if (texts.size() > kMostLayers) text.refuse("is one of more than 1024 layers");
      type->second(*net, text);
    }
  }
  check_shapes(*net, texts, input);
  std::vector<Stage> stages;
  std::size_t first = 0;
  for (std::size_t i = 0; i < net->stages.size(); ++i) {
    stages.push_back({std::to_string(first),
                      [net, i](const at::Tensor& x) { return net->run(i, x); },
                      net->stages[i].ptr()});
    first += net->stages[i]->size();
  }
  return {net,
          [net](const at::Tensor& x) {
            at::Tensor y = x;
            for (std::size_t i = 0; i < net->stages.size(); ++i) y = net->run(i, y);
            return y;
          },
          input, std::move(stages)};
}

}  // namespace gbcompress::nets
