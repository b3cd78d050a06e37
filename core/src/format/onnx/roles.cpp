#include "format/onnx/roles.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "format/onnx/types.h"

namespace gbcompress::onnx {
namespace {

using Kind = TensorHint::Kind;

/// Tensors that one value may be made of, and operators that are named of one tensor.
constexpr std::size_t kMostSources = 64, kMostConsumers = 16;
/// Bytes of an operator's name, and sources of all outputs of moving operators together.
constexpr std::size_t kMostOpName = 128, kMostMoved = 4'000'000;
/// An embedding has rows of at least so many elements, and together at least so many.
constexpr std::int64_t kEmbeddingCols = 8, kEmbeddingElements = 1024;
/// Vectors of more elements are no biases.
constexpr std::int64_t kLongestVector = 16384;
/// Nodes that are looked at once more where functions get constants, and such calls inside of
/// others.
constexpr std::size_t kMostCalled = 1'000'000;
constexpr int kMostCalls = 16;

/// A value that is a constant: the tensors it is made of, and whether its last two axes changed
/// places.
struct ConstantValue {
  std::vector<std::size_t> tensors;
  bool transposed = false, reshaped = false;
  bool computed = false;  ///< its elements are no longer those of the tensors
};

constexpr std::array<std::string_view, 13> kMoving = {
    "Identity", "Cast",   "Transpose",        "Reshape",        "Squeeze", "Unsqueeze", "Flatten",
    "Slice",    "Concat", "DequantizeLinear", "QuantizeLinear", "Split",   "Expand"};
constexpr std::array<std::string_view, 3> kRecurrent = {"LSTM", "GRU", "RNN"};
constexpr std::array<std::string_view, 4> kProducts = {"MatMul", "FusedMatMul", "TransposeMatMul",
                                                       "Einsum"};
constexpr std::array<std::string_view, 4> kConvolutions = {"Conv", "ConvTranspose", "FusedConv",
                                                           "NhwcFusedConv"};
/// Operators that take integers in the place of weights: their inputs of these.
struct QuantizedOperator {
  std::string_view op;
  std::size_t weight;
  bool rows;  ///< whether the last axis is a row
};
constexpr std::array<QuantizedOperator, 9> kQuantized = {{{"QLinearConv", 3, false},
                                                          {"ConvInteger", 1, false},
                                                          {"QLinearMatMul", 3, true},
                                                          {"QGemm", 3, true},
                                                          {"MatMulInteger", 1, true},
                                                          {"DynamicQuantizeMatMul", 1, true},
                                                          {"MatMulIntegerToFloat", 1, true},
                                                          {"DynamicQuantizeLSTM", 1, true},
                                                          {"DynamicQuantizeLSTM", 2, true}}};
constexpr std::array<std::string_view, 8> kNorms = {
    "BatchNormalization", "InstanceNormalization",        "LayerNormalization",
    "GroupNormalization", "SimplifiedLayerNormalization", "RMSNormalization",
    "GroupNorm",          "SkipLayerNormalization"};
/// onnxruntime's own domains, whose Conv is ONNX's.
constexpr std::array<std::string_view, 3> kRuntimeDomains = {
    "com.microsoft", "com.ms.internal.nhwc", "com.microsoft.nchwc"};
constexpr std::array<std::string_view, 5> kElementwise = {"Add", "Sub", "Mul", "Div", "PRelu"};

std::int64_t elements_in(const Tensor& tensor) {
  std::int64_t n = 1;
  for (const std::int64_t side : tensor.shape) n *= side;
  return n;
}

/// The elements in rows of the last `axes` axes.
void set_rows(TensorHint& hint, const Tensor& tensor, std::size_t axes) {
  if (tensor.shape.size() < axes + 1) return;
  hint.rows = hint.cols = 1;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    (i + axes < tensor.shape.size() ? hint.rows : hint.cols) *= tensor.shape[i];
  if (hint.rows == 0 || hint.cols == 0) hint.rows = hint.cols = 0;
}

class Finder {
 public:
  explicit Finder(const ModelFile& model)
      : model_(model), roles_(model.tensors.size()), used_(roles_.size()) {
    for (std::size_t i = 0; i < model.graphs.size(); ++i)
      if (model.graphs[i].is_function)
        functions_[{model.graphs[i].domain, model.graphs[i].name}] = i;
  }

  std::vector<TensorHint> run() {
    for (std::size_t i = 0; i < model_.graphs.size(); ++i)
      if (!model_.graphs[i].parent) graph(i);
    for (std::size_t i = 0; i < roles_.size(); ++i)
      if (!used_[i]) roles_[i].kind = Kind::kExact;
    return std::move(roles_);
  }

  std::vector<WeightUse> uses() {
    const std::vector<TensorHint> roles = run();
    std::erase_if(uses_, [&](const WeightUse& use) {
      const Kind kind = roles[use.tensor].kind;
      return kind != Kind::kWeight && !(use.computed && kind == Kind::kUnknown);
    });
    for (WeightUse& use : uses_) use.rows = roles[use.tensor].rows;
    return std::move(uses_);
  }

 private:
  using Scope = std::unordered_map<std::string_view, ConstantValue>;

  void graph(std::size_t index) {
    const Graph& graph = model_.graphs[index];
    scopes_.emplace_back();
    hide(graph.inputs);
    for (const auto& [name, tensor] : graph.initializers) scopes_.back()[name] = {{tensor}};
    for (const std::size_t i : graph.order) node(index, i);
    for (const std::string_view name : graph.outputs)
      if (const ConstantValue* value = find(name)) use(*value, "output", {Kind::kExact});
    scopes_.pop_back();
  }

  const ConstantValue* find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto at = scope->find(name); at != scope->end())
        return at->second.tensors.empty() ? nullptr : &at->second;
    return nullptr;
  }

  /// Values of these names are no constants from here on, whatever outer ones of the name are.
  void hide(const std::vector<std::string_view>& names) {
    for (const std::string_view name : names)
      if (find(name)) scopes_.back()[name] = {};
  }

  /// Of several uses the strictest counts.
  void use(const ConstantValue& value, std::string_view name, const TensorHint& hint) {
    const std::string_view op = name.substr(0, kMostOpName);
    for (const std::size_t tensor : value.tensors) {
      TensorHint& role = roles_[tensor];
      if (role.consumers.size() < kMostConsumers &&
          std::find(role.consumers.begin(), role.consumers.end(), op) == role.consumers.end())
        role.consumers.emplace_back(op);
      const auto rank = [](Kind kind) {
        return kind == Kind::kExact ? 0 : kind == Kind::kShort ? 1 : kind == Kind::kUnknown ? 2 : 3;
      };
      if (used_[tensor] && rank(role.kind) <= rank(hint.kind)) continue;
      used_[tensor] = true;
      std::vector<std::string> consumers = std::move(role.consumers);
      role = hint;
      role.consumers = std::move(consumers);
    }
  }

  void node(std::size_t graph_index, std::size_t place) {
    const Node& node = model_.graphs[graph_index].nodes[place];
    if (depth_ > 0) ++called_;
    if (node.is_standard() && node.op == "Constant" && !node.outputs.empty()) {
      const Attribute* value = node.find("value");
      if (value && value->tensor) scopes_.back()[node.outputs[0]] = {{*value->tensor}};
      return;
    }
    for (const Attribute& attribute : node.attributes)
      for (const std::size_t inner : attribute.graphs) graph(inner);
    if (call(node)) return;
    if (node.is_standard() && is_one_of(node.op, kMoving) && move(node)) return;
    if (node.is_standard() && compute(node)) return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ConstantValue* const value = find(node.inputs[i]);
      if (!value) continue;
      take(node, i, *value);
      if (depth_ == 0) add_uses(node, {0, graph_index, place, i}, *value);
    }
    hide(node.outputs);
    // Tensors in attributes of other nodes are constants of no known meaning.
  }

  void add_uses(const Node& node, WeightUse use, const ConstantValue& value) {
    if (!value.computed && !is_one_tensor(value)) return;
    use.transposed = value.transposed;
    use.reshaped = value.reshaped;
    use.computed = value.computed;
    const std::size_t count = value.computed ? value.tensors.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      use.tensor = value.tensors[i];
      if (is_weight(node, use.input, value, use.tensor)) uses_.push_back(use);
    }
  }

  /// What a function does with the constants that it gets.
  /// @return whether the node is a call of one
  bool call(const Node& node) {
    const auto at = functions_.find({node.domain, node.op});
    if (at == functions_.end()) return false;
    const Graph& function = model_.graphs[at->second];
    Scope given;
    for (std::size_t i = 0; i < std::min(node.inputs.size(), function.inputs.size()); ++i)
      if (const ConstantValue* value = find(node.inputs[i])) given[function.inputs[i]] = *value;
    if (given.empty()) {
      hide(node.outputs);
      return true;
    }
    called_ += node.inputs.size() + function.nodes.size() + 1;
    if (depth_ >= kMostCalls || called_ > kMostCalled) {
      for (const auto& [name, value] : given) use(value, node.op, {});
      hide(node.outputs);
      return true;
    }
    // It sees nothing else of the graph.
    std::vector<Scope> outer = std::move(scopes_);
    scopes_ = {};
    scopes_.push_back(std::move(given));
    ++depth_;
    for (const std::size_t i : function.order) this->node(at->second, i);
    --depth_;
    Scope results;
    for (std::size_t i = 0; i < std::min(node.outputs.size(), function.outputs.size()); ++i)
      if (const ConstantValue* value = find(function.outputs[i])) results[node.outputs[i]] = *value;
    scopes_ = std::move(outer);
    hide(node.outputs);
    for (auto& [name, value] : results) scopes_.back()[name] = std::move(value);
    return true;
  }

  /// @return whether the node's first input is a constant, which it hands on
  bool move(const Node& node) {
    if (node.inputs.empty() || node.outputs.empty()) return false;
    ConstantValue moved;
    const bool joins = node.op == "Concat";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ConstantValue* value = find(node.inputs[i]);
      if (i > 0 && !joins) {  // shapes, axes, scales
        if (value) use(*value, node.op, {Kind::kExact});
        continue;
      }
      if (!value) return false;
      moved.tensors.insert(moved.tensors.end(), value->tensors.begin(), value->tensors.end());
      moved.transposed = value->transposed;
      moved.reshaped = moved.reshaped || value->reshaped;
      moved.computed = moved.computed || value->computed;
    }
    moved_ += node.outputs.size() * (1 + moved.tensors.size());
    if (moved.tensors.size() > kMostSources || moved_ > kMostMoved) return false;
    if (node.op == "Transpose") turn(node, moved);
    if (node.op == "Reshape" || node.op == "Flatten") moved.reshaped = true;
    for (const std::string_view output : node.outputs) scopes_.back()[output] = moved;
    return true;
  }

  /// @return whether the node has constants alone: then its output is made of them, and their roles
  ///         are told by what takes it (norms of weights, masks, differences of low rank)
  bool compute(const Node& node) {
    ConstantValue computed;
    computed.computed = true;
    if (node.outputs.empty()) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty()) continue;
      const ConstantValue* const value = find(node.inputs[i]);
      if (!value) return false;
      for (const std::size_t tensor : value->tensors) {
        // A table that is read at constant places is one by itself.
        if (!is_one_of(node.op, kProducts) && is_weight(node, i, *value, tensor)) return false;
        if (std::ranges::find(computed.tensors, tensor) == computed.tensors.end())
          computed.tensors.push_back(tensor);
      }
      if (computed.tensors.size() > kMostSources) return false;
    }
    const bool has_graphs = std::ranges::any_of(
        node.attributes, [](const Attribute& of) { return !of.graphs.empty(); });
    moved_ += node.outputs.size() * (1 + computed.tensors.size());
    if (computed.tensors.empty() || has_graphs || moved_ > kMostMoved) return false;
    for (const std::string_view output : node.outputs) scopes_.back()[output] = computed;
    return true;
  }

  /// Also where it is one again after a Split or several Slices.
  static bool is_one_tensor(const ConstantValue& value) {
    return std::all_of(value.tensors.begin(), value.tensors.end(),
                       [&](std::size_t tensor) { return tensor == value.tensors[0]; });
  }

  static void turn(const Node& node, ConstantValue& moved) {
    const Attribute* perm = node.find("perm");
    const std::size_t n = perm ? perm->wholes.size() : 2;
    bool last_two = n >= 2;
    for (std::size_t i = 0; perm && i < n; ++i) {
      const std::size_t wanted = i + 2 < n ? i : i + 2 == n ? n - 1 : n - 2;
      last_two = last_two && perm->wholes[i] == static_cast<std::int64_t>(wanted);
    }
    if (last_two)
      moved.transposed = !moved.transposed;
    else
      moved.reshaped = true;
  }

  void take(const Node& node, std::size_t input, const ConstantValue& value) {
    for (const std::size_t tensor : value.tensors)
      use({{tensor}}, node.op, hint_of(node, input, value, tensor));
  }

  /// Of tensors that a weight is computed from, each may be a weight, a scale or a mask, which its
  /// elements tell.
  TensorHint hint_of(const Node& node, std::size_t input, const ConstantValue& value,
                     std::size_t index) const {
    const Tensor& tensor = model_.tensors[index];
    TensorHint hint = hint_of(node, input, value, tensor);
    return value.computed && hint.kind == Kind::kWeight ? TensorHint{} : hint;
  }

  bool is_weight(const Node& node, std::size_t input, const ConstantValue& value,
                 std::size_t index) const {
    return hint_of(node, input, value, model_.tensors[index]).kind == Kind::kWeight;
  }

  static TensorHint hint_of(const Node& node, std::size_t input, const ConstantValue& value,
                            const Tensor& tensor) {
    if (!tensor.payload) return {Kind::kExact};  // its shape may be anything
    TensorHint weight{Kind::kWeight};
    const std::string_view op = node.op;
    if (!is_known(node)) return {Kind::kExact};
    if (is_one_of(op, kProducts) || (op == "Gemm" && input < 2)) {
      set_rows(weight, tensor, 1);
      return weight;
    }
    if (is_one_of(op, kConvolutions) && input == 1) return weight;
    if (is_one_of(op, kRecurrent) && (input == 1 || input == 2)) {
      set_rows(weight, tensor, 1);
      weight.row_steps = false;
      return weight;
    }
    if (op == "Attention" && input == 1) {
      set_rows(weight, tensor, 1);
      return weight;
    }
    for (const QuantizedOperator& each : kQuantized) {
      if (op != each.op || input != each.weight) continue;
      if (each.rows) set_rows(weight, tensor, 1);
      weight.row_steps = op != "DynamicQuantizeLSTM";
      return weight;
    }
    if (op == "Gather" && input == 0) return embedding(node, value, tensor);
    if (op == "EmbedLayerNormalization" && input >= 2 && input <= 4)
      return embedding(node, value, tensor);
    if (is_one_of(op, kNorms) && input > 0) return {Kind::kShort};
    const bool biased = op == "Gemm" || op == "Attention" || is_one_of(op, kConvolutions);
    if (biased && input == 2) return {Kind::kShort};
    if (is_one_of(op, kRecurrent) && (input == 3 || input == 7)) return {Kind::kShort};
    if (op == "EmbedLayerNormalization" && input > 4) return {Kind::kShort};
    if (is_one_of(op, kElementwise) && is_vector(tensor)) return {Kind::kShort};
    return {Kind::kExact};
  }

  static TensorHint embedding(const Node& node, const ConstantValue& value, const Tensor& tensor) {
    const bool rows = tensor.shape.size() == 2 && tensor.shape[1] >= kEmbeddingCols &&
                      elements_in(tensor) >= kEmbeddingElements;
    if (!rows || value.transposed || node.whole("axis", 0) != 0) return {Kind::kExact};
    TensorHint hint{Kind::kWeight};
    set_rows(hint, tensor, 1);
    return hint;
  }

  /// All sides but one are 1.
  static bool is_vector(const Tensor& tensor) {
    const auto sides = std::count_if(tensor.shape.begin(), tensor.shape.end(),
                                     [](std::int64_t side) { return side != 1; });
    return sides == 1 && elements_in(tensor) <= kLongestVector;
  }

  /// Operators of other domains may mean anything by a name.
  static bool is_known(const Node& node) {
    return node.is_standard() || is_one_of(node.domain, kRuntimeDomains);
  }

  const ModelFile& model_;
  std::vector<TensorHint> roles_;
  std::vector<bool> used_;
  std::size_t moved_ = 0;
  std::vector<WeightUse> uses_;
  std::vector<Scope> scopes_;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> functions_;
  std::size_t called_ = 0;  ///< nodes of functions that were called with constants
  int depth_ = 0;           ///< of such calls
};

}  // namespace

std::vector<TensorHint> roles(const ModelFile& model) { return Finder(model).run(); }

std::vector<WeightUse> weight_uses(const ModelFile& model) { return Finder(model).uses(); }

std::optional<std::vector<std::pair<std::size_t, std::size_t>>> path_to(const ModelFile& model,
                                                                        std::size_t graph) {
  std::vector<std::pair<std::size_t, std::size_t>> path;
  while (const auto parent = model.graphs[graph].parent) {
    path.emplace_back(model.graphs[graph].node, model.graphs[graph].place);
    graph = *parent;
  }
  if (model.graphs[graph].is_function) return {};
  std::ranges::reverse(path);
  return path;
}

}  // namespace gbcompress::onnx
