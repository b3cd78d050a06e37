#include "format/onnx/affine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/float16.h"

namespace gbcompress::onnx {
namespace {

enum TensorType : int { kFloat = 1, kUint8 = 2, kInt8 = 3, kFloat16 = 10, kBfloat16 = 16 };
/// Scales of more elements belong to no weight.
constexpr std::int64_t kMostScales = 1 << 20;
constexpr int kNone = -1;
constexpr std::size_t kNoConstant = static_cast<std::size_t>(-1);

enum class Axis : std::uint8_t { kAttribute, kFirst, kLast, kColumns };

/// An operator's input of quantized weights, and those of their scales and zeros.
struct Reader {
  std::string_view op;
  int weight, scale, zero;
  Axis axis;
};
constexpr std::array<Reader, 10> kReaders = {{
    {"DequantizeLinear", 0, 1, 2, Axis::kAttribute},
    {"QLinearConv", 3, 4, 5, Axis::kFirst},
    {"QLinearMatMul", 3, 4, 5, Axis::kLast},
    {"QGemm", 3, 4, 5, Axis::kColumns},
    {"ConvInteger", 1, kNone, 3, Axis::kFirst},
    {"MatMulInteger", 1, kNone, 3, Axis::kLast},
    {"DynamicQuantizeMatMul", 1, 2, 3, Axis::kLast},
    {"MatMulIntegerToFloat", 1, 3, 5, Axis::kLast},
    {"DynamicQuantizeLSTM", 1, 8, 9, Axis::kLast},
    {"DynamicQuantizeLSTM", 2, 10, 11, Axis::kLast},
}};

class AffineFinder {
 public:
  AffineFinder(const ModelFile& model, const PayloadBytes& payload)
      : model_(model),
        payload_(payload),
        found_(model.tensors.size()),
        refused_(model.tensors.size()) {}

  std::vector<std::optional<Affine>> run() {
    for (const Graph& graph : model_.graphs) name_constants(graph);
    for (std::size_t i = 0; i < model_.graphs.size(); ++i) {
      for (const Node& node : model_.graphs[i].nodes)
        for (std::size_t input = 0; input < node.inputs.size(); ++input)
          if (const auto tensor = find(i, node.inputs[input])) take(i, node, input, *tensor);
      for (const std::string_view output : model_.graphs[i].outputs)
        if (const auto tensor = find(i, output)) refused_[*tensor] = true;
    }
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (refused_[i]) found_[i].reset();
    return std::move(found_);
  }

 private:
  void name_constants(const Graph& graph) {
    auto& names = names_.emplace_back();
    if (graph.parent) {  // its own values hide outer ones of their names
      for (const std::string_view name : graph.inputs) names[name] = kNoConstant;
      for (const Node& node : graph.nodes)
        for (const std::string_view name : node.outputs) names[name] = kNoConstant;
    }
    for (const auto& [name, tensor] : graph.initializers) names[name] = tensor;
    for (const Node& node : graph.nodes) {
      const Attribute* value = node.op == "Constant" ? node.find("value") : nullptr;
      if (value && value->tensor && !node.outputs.empty()) names[node.outputs[0]] = *value->tensor;
    }
  }

  std::optional<std::size_t> find(std::size_t graph, std::string_view name) const {
    if (name.empty()) return {};
    for (std::optional<std::size_t> at = graph; at; at = model_.graphs[*at].parent)
      if (const auto found = names_[*at].find(name); found != names_[*at].end())
        return found->second == kNoConstant ? std::nullopt : std::optional(found->second);
    return {};
  }
  std::optional<std::size_t> input(std::size_t graph, const Node& node, int index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= node.inputs.size()) return {};
    return find(graph, node.inputs[static_cast<std::size_t>(index)]);
  }
  static bool is_given(const Node& node, int index) {
    return index >= 0 && static_cast<std::size_t>(index) < node.inputs.size() &&
           !node.inputs[static_cast<std::size_t>(index)].empty();
  }

  void take(std::size_t graph, const Node& node, std::size_t place, std::size_t tensor) {
    const int type = model_.tensors[tensor].type;
    if ((type != kInt8 && type != kUint8) || refused_[tensor]) return;
    const auto* reader = std::find_if(kReaders.begin(), kReaders.end(), [&](const Reader& each) {
      return each.op == node.op && each.weight == static_cast<int>(place);
    });
    std::optional<Affine> affine;
    if (reader != kReaders.end()) affine = read(graph, node, *reader, model_.tensors[tensor]);
    if (!affine || (found_[tensor] && *found_[tensor] != *affine))
      refused_[tensor] = true;
    else
      found_[tensor] = std::move(affine);
  }

  std::optional<Affine> read(std::size_t graph, const Node& node, const Reader& reader,
                             const Tensor& weight) const {
    if (node.whole("block_size", 0) != 0) return {};
    Affine affine{weight.type == kInt8 ? DType::kI8 : DType::kU8, 1, {1.0F}, {}};
    if (reader.scale != kNone) {
      const auto scale = input(graph, node, reader.scale);
      if (!scale || !read_scales(model_.tensors[*scale], affine.scales)) return {};
    }
    affine.zeros = {0};
    if (is_given(node, reader.zero)) {
      const auto zero = input(graph, node, reader.zero);
      if (!zero || model_.tensors[*zero].type != weight.type ||
          !read_zeros(model_.tensors[*zero], affine.zeros))
        return {};
    }
    const std::size_t count = std::max(affine.scales.size(), affine.zeros.size());
    if (count > 1 && !set_axis(affine, node, reader.axis, weight, count)) return {};
    if (affine.scales.size() == 1) affine.scales.resize(count, affine.scales[0]);
    if (affine.zeros.size() == 1) affine.zeros.resize(count, affine.zeros[0]);
    if (affine.scales.size() != affine.zeros.size()) return {};
    return affine;
  }

  /// @return whether the axis has as many elements as there are scales
  static bool set_axis(Affine& affine, const Node& node, Axis axis, const Tensor& weight,
                       std::size_t count) {
    const auto rank = static_cast<std::int64_t>(weight.shape.size());
    std::int64_t at = axis == Axis::kFirst ? 0 : rank - 1;
    if (axis == Axis::kAttribute) at = node.whole("axis", 1);
    if (axis == Axis::kColumns && node.whole("transB", 0) != 0) at = 0;
    if (at < 0) at += rank;
    if (at < 0 || at >= rank ||
        weight.shape[static_cast<std::size_t>(at)] != static_cast<std::int64_t>(count))
      return false;
    // With scales for each of two directions, a scale's elements are not evenly spaced.
    if (node.op == "DynamicQuantizeLSTM" && weight.shape[0] != 1) return false;
    for (auto i = static_cast<std::size_t>(at) + 1; i < weight.shape.size(); ++i)
      affine.inner *= static_cast<std::uint64_t>(weight.shape[i]);
    return affine.inner > 0;
  }

  std::optional<std::int64_t> count_of(const Tensor& tensor) const {
    std::int64_t count = 1;
    for (const std::int64_t side : tensor.shape) {
      if (side < 1 || side > kMostScales || (count *= side) > kMostScales) return {};
    }
    return tensor.payload ? std::optional(count) : std::nullopt;
  }

  bool read_scales(const Tensor& tensor, std::vector<float>& scales) const {
    const auto count = count_of(tensor);
    const std::size_t size = tensor.type == kFloat ? sizeof(float) : sizeof(std::uint16_t);
    if (!count || tensor.encoding != PayloadEncoding::kBytes ||
        (tensor.type != kFloat && tensor.type != kFloat16 && tensor.type != kBfloat16))
      return false;
    const auto bytes = payload_(tensor);
    if (bytes.size() != static_cast<std::size_t>(*count) * size) return false;
    scales.clear();
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, size);
      const float scale = tensor.type == kFloat16
                              ? half_to_float(static_cast<std::uint16_t>(bits))
                              : std::bit_cast<float>(tensor.type == kFloat ? bits : bits << 16);
      if (!std::isnormal(scale) || scale < 0) return false;
      scales.push_back(scale);
    }
    return true;
  }

  bool read_zeros(const Tensor& tensor, std::vector<std::int32_t>& zeros) const {
    const auto count = count_of(tensor);
    if (!count) return false;
    const DType dtype = tensor.type == kInt8 ? DType::kI8 : DType::kU8;
    const auto raw = payload_(tensor);
    std::vector<std::byte> bytes(raw.begin(), raw.end());
    if (tensor.encoding == PayloadEncoding::kVarint) {
      auto elements = from_varints(raw, dtype, *count);
      if (!elements) return false;
      bytes = std::move(*elements);
    }
    if (bytes.size() != static_cast<std::size_t>(*count)) return false;
    zeros.clear();
    for (const std::byte byte : bytes)
      zeros.push_back(dtype == DType::kI8 ? std::to_integer<std::int8_t>(byte)
                                          : std::to_integer<std::uint8_t>(byte));
    return true;
  }

  const ModelFile& model_;
  const PayloadBytes& payload_;
  std::vector<std::optional<Affine>> found_;
  std::vector<bool> refused_;
  std::vector<std::unordered_map<std::string_view, std::size_t>> names_;
};

}  // namespace

std::vector<std::optional<Affine>> affine_weights(const ModelFile& model,
                                                  const PayloadBytes& payload) {
  return AffineFinder(model, payload).run();
}

}  // namespace gbcompress::onnx
