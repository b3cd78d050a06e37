#include "gbcompress/decode.h"

#include <charconv>

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;  // of mlp layers, and of classes
constexpr std::int64_t kMaxWeights = 1 << 30;
constexpr std::size_t kMaxLayers = 64;

/// Parameters and buffers as a walk over the modules finds them.
struct Layout {
  std::vector<LayoutEntry> parameters, buffers;

  void parameter(const std::string& name, std::vector<std::int64_t> shape) {
    parameters.push_back({.name = name, .shape = std::move(shape)});
  }
  void linear(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
    parameter(name + ".weight", {outputs, inputs});
    parameter(name + ".bias", {outputs});
  }
  void conv(const std::string& name, std::int64_t inputs, std::int64_t outputs, std::int64_t side) {
    parameter(name + ".weight", {outputs, inputs, side, side});
  }
  void norm(const std::string& name, std::int64_t channels) {
    parameter(name + ".weight", {channels});
    parameter(name + ".bias", {channels});
    buffers.push_back({name + ".running_mean", {channels}, DType::kF32, true, 0});
    buffers.push_back({name + ".running_var", {channels}, DType::kF32, true, 1});
    buffers.push_back({name + ".num_batches_tracked", {}, DType::kI64, true, 0});
  }
  std::vector<LayoutEntry> all() {
    parameters.insert(parameters.end(), buffers.begin(), buffers.end());
    return std::move(parameters);
  }
};

/// Numbers from 1 to kMaxWidth between `-`; nothing where the text is anything else.
std::vector<std::int64_t> numbers(std::string_view text) {
  std::vector<std::int64_t> result;
  const char *at = text.data(), *const end = at + text.size();
  while (result.size() <= kMaxLayers + 1) {
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1 || number > kMaxWidth) return {};
    result.push_back(number);
    if (stop == end) return result;
    if (*stop != '-') return {};
    at = stop + 1;
  }
  return {};
}

std::optional<Layout> mlp(std::string_view options) {
  const std::vector<std::int64_t> widths = numbers(options);
  if (widths.size() < 2 || widths.size() > kMaxLayers + 1) return {};
  Layout layout;
  std::int64_t weights = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    weights += widths[i] * widths[i + 1];
    layout.linear(std::to_string(2 * i), widths[i], widths[i + 1]);
  }
  if (weights > kMaxWeights) return {};
  return layout;
}

Layout lenet5() {
  Layout layout;
  layout.conv("conv1", 1, 20, 5);
  layout.parameter("conv1.bias", {20});
  layout.conv("conv2", 20, 50, 5);
  layout.parameter("conv2.bias", {50});
  layout.linear("fc1", 800, 500);
  layout.linear("fc2", 500, 10);
  return layout;
}

std::optional<Layout> resnet(int blocks, std::string_view options) {
  const std::vector<std::int64_t> classes =
      options.empty() ? std::vector<std::int64_t>{10} : numbers(options);
  if (classes.size() != 1) return {};
  Layout layout;
  layout.conv("conv1", 3, 16, 3);
  layout.norm("bn1", 16);
  std::int64_t inputs = 16;
  for (int stage = 0; stage < 3; ++stage)
    for (int block = 0; block < blocks; ++block) {
      const std::int64_t outputs = std::int64_t{16} << stage;
      const std::string name =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      layout.conv(name + "conv1", inputs, outputs, 3);
      layout.norm(name + "bn1", outputs);
      layout.conv(name + "conv2", outputs, outputs, 3);
      layout.norm(name + "bn2", outputs);
      inputs = outputs;
    }
  layout.linear("linear", 64, classes[0]);
  return layout;
}

std::optional<Layout> layout_of(std::string_view name, std::string_view options) {
  if (name == "mlp") return mlp(options);
  if (name == "resnet20") return resnet(3, options);
  if (name == "resnet32") return resnet(5, options);
  if (name == "resnet56") return resnet(9, options);
  if (!options.empty()) return {};
  if (name == "lenet-300-100") return mlp("784-300-100-10");
  if (name == "lenet5") return lenet5();
  return {};
}

}  // namespace

std::optional<std::vector<LayoutEntry>> arch_layout(std::string_view arch) {
  const std::size_t colon = arch.find(':');
  const bool bare = colon == std::string_view::npos;
  const std::string_view options = bare ? "" : arch.substr(colon + 1);
  if (!bare && options.empty()) return {};
  auto layout = layout_of(arch.substr(0, colon), options);
  if (!layout) return {};
  return layout->all();
}

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> names = {"lenet-300-100", "lenet5",   "mlp",
                                                 "resnet20",      "resnet32", "resnet56"};
  return names;
}

}  // namespace gbcompress
