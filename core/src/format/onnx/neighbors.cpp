#include "format/onnx/neighbors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "format/onnx/types.h"

namespace gbcompress::onnx {
namespace {

/// Nodes between a value and what tells its sign.
constexpr int kMostBetween = 24;
/// ONNX's default of BatchNormalization.
constexpr float kEpsilon = 1e-5F;

constexpr std::array<std::string_view, 12> kPositive = {
    "Relu", "Sigmoid", "HardSigmoid", "Softmax",  "Softplus", "Exp",
    "Abs",  "Sqrt",    "ReduceL1",    "ReduceL2", "LpPool",   "ReduceSumSquare"};
/// Of their first input; the others are shapes, axes and places.
constexpr std::array<std::string_view, 24> kHandingOn = {"MaxPool",       "AveragePool",
                                                         "GlobalMaxPool", "GlobalAveragePool",
                                                         "Reshape",       "Flatten",
                                                         "Transpose",     "Squeeze",
                                                         "Unsqueeze",     "Identity",
                                                         "Cast",          "Dropout",
                                                         "Slice",         "Split",
                                                         "Pad",           "Resize",
                                                         "Upsample",      "Gather",
                                                         "ReduceMean",    "ReduceMax",
                                                         "DepthToSpace",  "DequantizeLinear",
                                                         "SpaceToDepth",  "QuantizeLinear"};
/// Of all their inputs.
constexpr std::array<std::string_view, 6> kJoining = {"Concat", "Add", "Mul", "Max", "Sum", "Mean"};

/// BatchNormalization right behind a node.
struct Norm {
  std::size_t scale = 0, variance = 0;  ///< tensors
  double epsilon = 0;
};

/// Looks up values of one graph after another.
class Neighbors {
 public:
  explicit Neighbors(const ModelFile& model);

  /// Whether operators alone say that no element of a value is negative.
  bool is_positive(std::size_t graph, std::string_view value, int depth = 0);
  /// Where it is the only node that takes the output, but for an addition of a constant.
  std::optional<Norm> norm_behind(std::size_t graph, const Node& node) const;

 private:
  struct Values {
    std::unordered_map<std::string_view, std::size_t> makers;  ///< nodes
    /// The only node that takes a value; none where there are several.
    std::unordered_map<std::string_view, const Node*> users;
    std::unordered_map<std::string_view, std::size_t> constants;  ///< tensors
    std::unordered_map<std::string_view, bool> positive;          ///< found so far
  };
  bool made_positive(std::size_t graph, const Node& node, int depth);
  std::optional<std::size_t> constant(std::size_t graph, std::string_view value) const;

  const ModelFile& model_;
  std::vector<Values> graphs_;
};

Neighbors::Neighbors(const ModelFile& model) : model_(model), graphs_(model.graphs.size()) {
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    const Graph& graph = model.graphs[g];
    Values& values = graphs_[g];
    for (const auto& [name, tensor] : graph.initializers) values.constants[name] = tensor;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (const std::string_view name : node.outputs) values.makers[name] = i;
      for (const std::string_view name : node.inputs) {
        const auto [at, fresh] = values.users.emplace(name, &node);
        if (!fresh) at->second = nullptr;
      }
      const Attribute* const value =
          node.is_standard() && node.op == "Constant" ? node.find("value") : nullptr;
      if (value && value->tensor && !node.outputs.empty())
        values.constants[node.outputs[0]] = *value->tensor;
    }
    for (const std::string_view name : graph.outputs) values.users[name] = nullptr;
  }
}

bool Neighbors::is_positive(std::size_t graph, std::string_view value, int depth) {
  if (depth > kMostBetween) return false;
  std::optional<std::size_t> at = graph;
  while (at && !graphs_[*at].makers.contains(value)) at = model_.graphs[*at].parent;
  if (!at) return false;
  Values& values = graphs_[*at];
  // The first answer lets a cycle through enclosing graphs end.
  const auto [found, fresh] = values.positive.emplace(value, false);
  if (!fresh) return found->second;
  const bool positive =
      made_positive(*at, model_.graphs[*at].nodes[values.makers.at(value)], depth + 1);
  return values.positive[value] = positive;
}

bool Neighbors::made_positive(std::size_t graph, const Node& node, int depth) {
  if (!node.is_standard() || node.inputs.empty()) return false;
  if (is_one_of(node.op, kPositive)) return true;
  const auto from = [&](std::string_view name) { return is_positive(graph, name, depth); };
  // Networks clip at 0 from below: ReLU6.
  if (node.op == "Clip") {
    const Attribute* const least = node.find("min");
    return node.inputs.size() > 1 ? constant(graph, node.inputs[1]).has_value()
                                  : least && least->real >= 0;
  }
  if (is_one_of(node.op, kHandingOn)) return from(node.inputs[0]);
  if (!is_one_of(node.op, kJoining)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), from);
}

std::optional<std::size_t> Neighbors::constant(std::size_t graph, std::string_view value) const {
  for (std::optional<std::size_t> at = graph; at; at = model_.graphs[*at].parent) {
    const auto found = graphs_[*at].constants.find(value);
    if (found != graphs_[*at].constants.end()) return found->second;
    if (graphs_[*at].makers.contains(value)) return {};
  }
  return {};
}

std::optional<Norm> Neighbors::norm_behind(std::size_t graph, const Node& node) const {
  const auto user = [&](const Node& of) -> const Node* {
    if (of.outputs.empty()) return nullptr;
    const auto at = graphs_[graph].users.find(of.outputs[0]);
    const Node* const found = at == graphs_[graph].users.end() ? nullptr : at->second;
    return found && found->is_standard() ? found : nullptr;
  };
  const Node* next = user(node);
  if (next && next->op == "Add" && next->inputs.size() == 2 &&
      (constant(graph, next->inputs[0]) || constant(graph, next->inputs[1])))
    next = user(*next);
  if (!next || next->op != "BatchNormalization" || next->inputs.size() != 5) return {};
  const auto scale = constant(graph, next->inputs[1]), variance = constant(graph, next->inputs[4]);
  if (!scale || !variance) return {};
  const Attribute* const epsilon = next->find("epsilon");
  return Norm{*scale, *variance, static_cast<double>(epsilon ? epsilon->real : kEpsilon)};
}

/// Elements of a vector of real numbers; none where it is no such vector.
std::vector<float> numbers_of(const Tensor& tensor, std::int64_t count,
                              const PayloadBytes& payload) {
  if (!tensor.payload || tensor.type != kFloat || tensor.encoding != PayloadEncoding::kBytes)
    return {};
  const auto bytes = payload(tensor);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  if (bytes.size() != numbers.size() * sizeof(float)) return {};
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// What a norm multiplies each of `rows` outputs by; empty where that is no number.
std::vector<float> scales_of(const ModelFile& model, const Norm& norm, std::int64_t rows,
                             const PayloadBytes& payload) {
  std::vector<float> scales = numbers_of(model.tensors[norm.scale], rows, payload);
  const std::vector<float> variances = numbers_of(model.tensors[norm.variance], rows, payload);
  if (scales.empty() || variances.empty()) return {};
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const double variance = static_cast<double>(variances[i]) + norm.epsilon;
    scales[i] = static_cast<float>(std::fabs(static_cast<double>(scales[i])) / std::sqrt(variance));
    if (!std::isfinite(scales[i])) return {};
  }
  return scales;
}

bool is_convolution(const Node& node) { return node.op == "Conv" || node.op == "FusedConv"; }

/// Whether the first axis of a tensor counts the node's outputs.
bool has_outputs_first(const Node& node, const WeightUse& use) {
  if (use.reshaped || use.computed) return false;
  if (is_convolution(node)) return !use.transposed;
  if (node.op == "Gemm") return (node.whole("transB", 0) != 0) != use.transposed;
  return node.op == "MatMul" && use.transposed;
}

/// Two sides make an image, unless one of them alone is 1.
bool is_image_kernel(std::span<const std::int64_t> sides) {
  const auto wide =
      std::count_if(sides.begin(), sides.end(), [](std::int64_t side) { return side > 1; });
  return sides.size() >= 2 && wide != 1;
}

}  // namespace

void look_around(const ModelFile& model, const std::vector<WeightUse>& uses,
                 const PayloadBytes& payload, std::vector<TensorHint>& hints) {
  Neighbors neighbors(model);
  std::vector<int> count(hints.size());
  for (const WeightUse& use : uses) ++count[use.tensor];
  std::vector<bool> seen(hints.size());
  for (const WeightUse& use : uses) {
    const Node& node = model.graphs[use.graph].nodes[use.node];
    const Tensor& tensor = model.tensors[use.tensor];
    TensorHint& hint = hints[use.tensor];
    if (use.input != 1 || tensor.shape.size() < 2 || !has_outputs_first(node, use)) continue;
    if (count[use.tensor] == 1)
      if (const auto norm = neighbors.norm_behind(use.graph, node))
        hint.row_scales = scales_of(model, *norm, tensor.shape[0], payload);
    const auto sides = std::span(tensor.shape).subspan(2);
    if (!is_convolution(node) || !is_image_kernel(sides)) continue;
    // Of several uses, all must have such inputs.
    const bool positive = neighbors.is_positive(use.graph, node.inputs[0]);
    hint.inputs.positive = positive && (hint.inputs.positive || !seen[use.tensor]);
    hint.inputs.kernel.assign(sides.begin(), sides.end());
    seen[use.tensor] = true;
  }
}

}  // namespace gbcompress::onnx
