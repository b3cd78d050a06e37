#include "exits.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/error.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "component.h"

namespace gbcompress::al {
namespace {

namespace nn = torch::nn;

constexpr std::string_view kName = "exits:";

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::kUsage, "architecture exits: " + what);
}

std::int64_t whole(std::string_view key, std::string_view text, std::int64_t low,
                   std::int64_t high) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < low || value > high)
    refuse(std::string(key) + " must be an integer from " + std::to_string(low) + " to " +
           std::to_string(high) + ", not \"" + printable(std::string(text)) + "\"");
  return value;
}

/// Calls `each` for the parts of `text` between separators.
template <typename Each>
void split_at(std::string_view text, char separator, Each each) {
  while (true) {
    const std::size_t end = text.find(separator);
    each(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void read_option(ExitShape& shape, std::map<std::string, std::string>& forms,
                 std::string_view option) {
  const std::size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
  if (key == "split")
    split_at(value, '+', [&](std::string_view stages) {
      shape.split.push_back(whole("split", stages, 1, 1'000'000));
    });
  else if (key == "width")
    shape.width = whole(key, value, 1, 65'536);
  else if (key == "bridge")
    shape.bridge = whole(key, value, 0, 65'536);
  else if (key == "pool")
    shape.pool = whole(key, value, 1, 1024);
  else if (key == "codes" || key == "hidden" || key == "decoder")
    forms[std::string(key)] = value;
  else
    refuse("there is no option \"" + printable(std::string(key)) +
           "\" (it takes split, width, bridge, pool, codes, hidden, decoder)");
}

struct ExitImpl : nn::Module {
  ExitImpl(std::int64_t features, std::int64_t before, const ExitShape& shape)
      : forms(shape.forms) {
    if (shape.bridge > 0)
      bridge.push_back(register_module("bridge0", nn::Linear(features, shape.bridge)));
    bridge.push_back(register_module(
        "bridge1", nn::Linear(shape.bridge > 0 ? shape.bridge : features, shape.width)));
    back = register_module("back", nn::Linear(shape.width, before));
  }
  at::Tensor code(const at::Tensor& features) {
    at::Tensor x = features;
    if (bridge.size() > 1) x = al::apply(forms.hidden, bridge[0]->forward(x));
    return al::apply(forms.codes, bridge.back()->forward(x));
  }
  at::Tensor decode(const at::Tensor& code) {
    return al::apply(forms.decoder, back->forward(code));
  }
  Forms forms;
  std::vector<nn::Linear> bridge;
  nn::Linear back{nullptr};
};

/// What each component but the readout gives for one input, and at last the answer.
std::vector<at::Tensor> shapes_of(const BuiltModel& net, const ExitShape& shape) {
  const c10::NoGradGuard no_grad;
  net.module->eval();  // statistics stay as they are
  std::vector<std::int64_t> input = net.input_shape;
  input.insert(input.begin(), 1);
  // Architectures of any input shape are those of texts: a few tokens do.
  at::Tensor x = net.input_shape.empty() ? at::zeros({1, 2}, at::kLong) : at::zeros(input);
  std::vector<at::Tensor> signals;
  auto stage = net.stages.begin();
  for (const std::int64_t count : shape.split) {
    for (std::int64_t i = 0; i < count; ++i) x = (stage++)->forward(x);
    signals.push_back(x);
  }
  signals.push_back(stage->forward(x));
  net.module->train();
  return signals;
}

/// Whether the weights are of a net with an exit behind every stage, as files of texts written
/// before 0.2.0 have them.
bool has_an_exit_each(const ModelRequest& request, std::size_t stages) {
  const std::string last = "exit" + std::to_string(stages) + ".back.weight";
  return std::any_of(request.weights.begin(), request.weights.end(),
                     [&](const ParameterInfo& weight) { return weight.name == last; });
}

}  // namespace

std::vector<std::int64_t> default_split(std::size_t stages, bool tokens) {
  std::vector<std::int64_t> split(stages, 1);
  if (tokens && stages > 1) {
    split.pop_back();
    split[0] = 2;
  }
  return split;
}

std::optional<ExitShape> exit_shape(const std::string& arch) {
  if (!arch.starts_with(kName)) return std::nullopt;
  ExitShape shape;
  std::map<std::string, std::string> forms;
  std::string_view rest = std::string_view(arch).substr(kName.size());
  const std::size_t colon = rest.find(':');
  if (rest.substr(0, colon).find('=') != std::string_view::npos) {
    if (colon == std::string_view::npos) refuse("name the architecture behind its options");
    split_at(rest.substr(0, colon), ',',
             [&](std::string_view option) { read_option(shape, forms, option); });
    rest.remove_prefix(colon + 1);
  }
  shape.inner = rest;
  shape.forms = read_forms(forms, [&](const std::string& option, const std::string& rule) {
    refuse(option + " " + rule + ", not \"" + printable(forms.at(option)) + "\"");
  });
  return shape;
}

std::vector<std::int64_t> split_of(const std::vector<Exit>& exits) {
  std::vector<std::int64_t> split;
  std::size_t before = 0;
  for (const Exit& exit : exits) {
    split.push_back(static_cast<std::int64_t>(exit.stages - before));
    before = exit.stages;
  }
  return split;
}

BuiltModel with_exits(const ModelRequest& request) {
  auto shape = exit_shape(request.arch);
  if (!shape || shape->inner.empty())
    refuse("name the architecture that gets them, as in exits:mlp:64-128-64-10");
  BuiltModel net = request.build(shape->inner);
  if (net.stages.size() < 2)
    refuse(printable(shape->inner) + " does not say stages, or has one alone");
  const std::size_t before_last = net.stages.size() - 1;
  if (shape->split.empty())
    shape->split = default_split(
        before_last, net.input_shape.empty() && !has_an_exit_each(request, before_last));
  const std::int64_t named =
      std::accumulate(shape->split.begin(), shape->split.end(), std::int64_t{0});
  if (named != static_cast<std::int64_t>(before_last))
    refuse("split names " + std::to_string(named) + " stages; " + printable(shape->inner) +
           " has " + std::to_string(before_last) + " before its last one");
  const std::vector<at::Tensor> signals = shapes_of(net, *shape);
  if (signals.back().dim() != 2)
    refuse(printable(shape->inner) + " has more than one prediction a sample");
  std::vector<std::shared_ptr<ExitImpl>> exits;
  std::size_t stages = 0;
  for (std::size_t i = 0; i < shape->split.size(); ++i) {
    const std::int64_t features = pooled(signals[i], shape->pool).size(1);
    exits.push_back(net.module->register_module(
        "exit" + std::to_string(i + 1),
        std::make_shared<ExitImpl>(features, i == 0 ? signals.back().size(1) : shape->width,
                                   *shape)));
    stages += static_cast<std::size_t>(shape->split[i]);
    const auto answer = [exits, pool = shape->pool](const at::Tensor& signal,
                                                    const at::Tensor& mask) {
      at::Tensor code = exits.back()->code(pooled(signal, pool, mask));
      for (std::size_t k = exits.size(); k-- > 0;) code = exits[k]->decode(code);
      return code;
    };
    net.exits.push_back(
        {stages, [answer](const at::Tensor& signal) { return answer(signal, {}); }, answer});
  }
  return net;
}

}  // namespace gbcompress::al
