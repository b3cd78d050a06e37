#include <gbcompress/error.h>
#include <gbcompress/strategy.h>
#include <torch/torch.h>

#include <charconv>

#include "../common/masked_mean.h"
#include "nets.h"

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;

/// "VOCABULARY-WIDTH-LAYERS-CLASSES[:DROPOUT]".
struct TextShape {
  std::int64_t vocabulary, width, layers, classes;
  double dropout = 0;
};

/// What follows the last number. @throws Error(kUsage)
double dropout_of(const ModelRequest& request, const char* at, const char* end) {
  if (at == end) return 0;
  double dropout = -1;
  const auto [stop, error] = std::from_chars(at + 1, end, dropout);
  if (*at != ':' || error != std::errc() || stop != end || !(dropout >= 0 && dropout < 1))
    throw Error(Errc::kUsage,
                "--arch " + request.arch + ": dropout must be a number from 0 to below 1, as in " +
                    request.arch.substr(0, request.arch.find(':')) + ":128-64-2-4:0.3");
  return dropout;
}

TextShape shape_of(const ModelRequest& request) {
  TextShape shape{};
  std::int64_t* fields[] = {&shape.vocabulary, &shape.width, &shape.layers, &shape.classes};
  const std::int64_t most[] = {1 << 20, 8192, 64, 1 << 16};
  const char* at = request.options.data();
  const char* const end = at + request.options.size();
  for (int i = 0; i < 4; ++i) {
    const auto [stop, error] = std::from_chars(at, end, *fields[i]);
    const bool last = i == 3;
    if (error != std::errc() || *fields[i] < 1 || *fields[i] > most[i] ||
        (last ? stop != end && *stop != ':' : stop == end || *stop != '-'))
      throw Error(Errc::kUsage, "--arch " + request.arch +
                                    ": write vocabulary, width, layers and classes, as in " +
                                    request.arch.substr(0, request.arch.find(':')) + ":128-64-2-4");
    at = last ? stop : stop + 1;
  }
  shape.dropout = dropout_of(request, at, end);
  return shape;
}

enum class TextLayers : std::uint8_t { kLstm, kBothWays, kEncoder };

struct TextNetImpl : nn::Module {
  TextNetImpl(const TextShape& s, TextLayers layers) : width(s.width), dropout(s.dropout) {
    embedding = register_module("embedding", nn::Embedding(s.vocabulary, s.width));
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const std::string name = "layer" + std::to_string(i + 1);
      if (layers != TextLayers::kEncoder)
        lstms.push_back(
            register_module(name, nn::LSTM(nn::LSTMOptions(s.width, s.width)
                                               .batch_first(true)
                                               .bidirectional(layers == TextLayers::kBothWays))));
      else
        encoders.push_back(
            register_module(name, nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(
                                                                  s.width, s.width % 4 == 0 ? 4 : 1)
                                                                  .dim_feedforward(2 * s.width)
                                                                  .dropout(0))));
    }
    head = register_module("head", nn::Linear(s.width, s.classes));
  }

  static at::Tensor mask(const at::Tensor& tokens) { return tokens.ne(0); }
  at::Tensor dropped(const at::Tensor& x, const std::string& layer) const {
    return keyed_dropout(x, dropout, layer, is_training());
  }
  at::Tensor embed(const at::Tensor& tokens) { return dropped(looked_up(tokens), "embedding"); }
  at::Tensor looked_up(const at::Tensor& tokens) {
    const at::Tensor held = mask(tokens).unsqueeze(-1);
    const at::Tensor x = embedding->forward(tokens);
    if (encoders.empty()) return x * held;
    // Sines of the position, as in "Attention is all you need".
    const at::Tensor position =
        at::arange(x.size(1), x.options().requires_grad(false)).unsqueeze(1);
    const at::Tensor unit = at::arange(width, x.options().requires_grad(false));
    const at::Tensor angle =
        position * at::exp(-9.21 * at::floor(unit / 2) * 2 / static_cast<double>(width)) +
        unit.remainder(2) * 1.5707963;
    return (x + angle.sin()) * held;
  }
  at::Tensor layer(std::size_t i, const at::Tensor& x, const at::Tensor& held) {
    return dropped(computed(i, x, held), "layer" + std::to_string(i + 1));
  }
  at::Tensor computed(std::size_t i, const at::Tensor& x, const at::Tensor& held) {
    if (!lstms.empty()) {
      const at::Tensor y = std::get<0>(lstms[i]->forward(x));
      const bool both = y.size(-1) != width;
      return (both ? y.narrow(-1, 0, width) + y.narrow(-1, width, width) : y) * held.unsqueeze(-1);
    }
    // A row of padding alone attends to all of it: a softmax over nothing is no number.
    const at::Tensor padding = held.logical_not() & held.any(1, true);
    return encoders[i]->forward(x.transpose(0, 1), {}, padding).transpose(0, 1) *
           held.unsqueeze(-1);
  }
  at::Tensor answer(const at::Tensor& x, const at::Tensor& held) {
    return head->forward(masked_mean(x, held));
  }
  std::size_t layers() const { return lstms.size() + encoders.size(); }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor held = mask(tokens);
    at::Tensor x = embed(tokens);
    for (std::size_t i = 0; i < layers(); ++i) x = layer(i, x, held);
    return answer(x, held);
  }

  std::int64_t width;
  double dropout;
  nn::Embedding embedding{nullptr};
  std::vector<nn::LSTM> lstms;
  std::vector<nn::TransformerEncoderLayer> encoders;
  nn::Linear head{nullptr};
};

BuiltModel built(const ModelRequest& request, TextLayers layers) {
  auto net = std::make_shared<TextNetImpl>(shape_of(request), layers);
  // Without a mask, rows of zeros count as padding.
  const auto stage = [&](const std::string& name, auto forward,
                         std::shared_ptr<nn::Module> module) {
    return Stage{name, [forward](const at::Tensor& x) { return forward(x, held_positions(x)); },
                 std::move(module), forward};
  };
  std::vector<Stage> stages = {
      {"embedding", [net](const at::Tensor& x) { return net->embed(x); }, net->embedding.ptr()}};
  for (std::size_t i = 0; i < net->layers(); ++i)
    stages.push_back(stage(
        "layer" + std::to_string(i + 1),
        [net, i](const at::Tensor& x, const at::Tensor& held) { return net->layer(i, x, held); },
        net->encoders.empty() ? std::shared_ptr<nn::Module>(net->lstms[i].ptr())
                              : net->encoders[i].ptr()));
  stages.push_back(stage(
      "head", [net](const at::Tensor& x, const at::Tensor& held) { return net->answer(x, held); },
      net->head.ptr()));
  return {net, [net](const at::Tensor& x) { return net->forward(x); },
          {},  std::move(stages),
          {},  &TextNetImpl::mask};
}

}  // namespace

BuiltModel lstm_classifier(const ModelRequest& request) {
  return built(request, TextLayers::kLstm);
}
BuiltModel bilstm_classifier(const ModelRequest& request) {
  return built(request, TextLayers::kBothWays);
}
BuiltModel transformer_classifier(const ModelRequest& request) {
  return built(request, TextLayers::kEncoder);
}

}  // namespace gbcompress::nets
