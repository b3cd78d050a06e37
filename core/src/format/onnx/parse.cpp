#include <bit>

#include "format/onnx/model.h"
#include "format/onnx/tensor_message.h"
#include "format/tensor_bundle.h"

namespace gbcompress::onnx {
namespace {

constexpr std::size_t kMostWholes = 16;
constexpr int kFunctionNodes = 7;

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& label) : proto_(bytes, label) {}

  ModelFile run() {
    proto_.for_fields(proto_.all(), [&](const Field& field) {
      if (field.number == 1 && field.is_varint()) model_.ir_version = field.whole();
      if (!field.is_bytes()) return;
      if (field.number == 2) model_.producer = proto_.text(field.bytes);
      if (field.number == 7) inside(field, [&] { graph(field.bytes, {}); });
      if (field.number == 8) opset(field.bytes);
      if (field.number == 20) find_kept(proto_, Kept::kTraining, field.bytes, model_.tensors);
      if (field.number == 25) inside(field, [&] { function(field.bytes); });
    });
    return std::move(model_);
  }

 private:
  /// Parses a message that may hold tensors.
  template <typename Body>
  void inside(const Field& field, Body body) {
    frames_.push_back(proto_.length_position(field.bytes));
    body();
    frames_.pop_back();
  }

  /// What is kept of the file is bounded, in units of a name.
  void count(std::size_t names) {
    names_ += names;
    if (names_ > kMaxNames)
      throw Error(Errc::kLimit, proto_.label() + " has more than " + std::to_string(kMaxNames) +
                                    " names of values, counted with its attributes and subgraphs");
  }

  std::string_view name_in(const Field& field) {
    count(1);
    return proto_.text(field.bytes);
  }

  void opset(Range message) {
    std::pair<std::string, std::int64_t> entry;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) entry.first = proto_.text(field.bytes);
      if (field.number == 2 && field.is_varint()) entry.second = field.whole();
    });
    if (model_.opsets.size() < kMostWholes) model_.opsets.push_back(std::move(entry));
  }

  std::size_t new_graph(std::optional<std::size_t> parent) {
    count(kNamesOfGraph);
    model_.graphs.emplace_back().parent = parent;
    return model_.graphs.size() - 1;
  }

  std::size_t graph(Range message, std::optional<std::size_t> parent) {
    if (++depth_ > kMaxDepth) refuse_depth(proto_);
    const std::size_t index = new_graph(parent);
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 1) inside(field, [&] { node(field.bytes, index); });
      if (field.number == 2) model_.graphs[index].name = proto_.text(field.bytes);
      if (field.number == 5)
        inside(field, [&] {
          const auto tensor = this->tensor(field.bytes, {}, index);
          model_.graphs[index].initializers.emplace_back(model_.tensors[tensor].own_name, tensor);
        });
      if (field.number == 11) value(field.bytes, model_.graphs[index].inputs);
      if (field.number == 12) value(field.bytes, model_.graphs[index].outputs);
      if (field.number == 15) find_kept(proto_, Kept::kSparse, field.bytes, model_.tensors);
    });
    --depth_;
    return index;
  }

  void value(Range message, std::vector<std::string_view>& into) {
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) into.push_back(name_in(field));
    });
  }

  void function(Range message) {
    const std::size_t index = new_graph({});
    model_.graphs[index].is_function = true;
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 1) model_.graphs[index].name = proto_.text(field.bytes);
      if (field.number == 4) model_.graphs[index].inputs.push_back(name_in(field));
      if (field.number == 5) model_.graphs[index].outputs.push_back(name_in(field));
      if (field.number == 10) model_.graphs[index].domain = proto_.text(field.bytes);
      if (field.number == kFunctionNodes) inside(field, [&] { node(field.bytes, index); });
      if (field.number == 11) find_kept(proto_, Kept::kAttribute, field.bytes, model_.tensors);
    });
  }

  void node(Range message, std::size_t graph) {
    if (++nodes_ > kMaxNodes)
      throw Error(Errc::kLimit,
                  proto_.label() + " has more than " + std::to_string(kMaxNodes) + " nodes");
    Node node;
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 1) node.inputs.push_back(name_in(field));
      if (field.number == 2) node.outputs.push_back(name_in(field));
      if (field.number == 3) node.name = proto_.text(field.bytes);
      if (field.number == 4) node.op = proto_.text(field.bytes);
      if (field.number == 7) node.domain = proto_.text(field.bytes);
    });
    // Attributes may come before the outputs that name their tensors.
    std::size_t subgraphs = 0;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 5 && field.is_bytes())
        inside(field, [&] { attribute(field.bytes, node, graph, subgraphs); });
    });
    model_.graphs[graph].nodes.push_back(std::move(node));
  }

  /// @param subgraphs  of the node, so far
  void attribute(Range message, Node& node, std::size_t graph, std::size_t& subgraphs) {
    count(kNamesOfAttribute);
    Attribute entry;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) entry.name = proto_.text(field.bytes);
      if (field.number == 2 && field.type == protozero::pbf_wire_type::fixed32)
        entry.real = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
      if (field.number == 3 && field.is_varint()) entry.whole = field.whole();
      if (field.number == 4 && field.is_bytes()) entry.text = proto_.text(field.bytes);
      if (field.number == 8) read_wholes(proto_, field, kMostWholes, entry.wholes);
    });
    const std::string_view output = node.outputs.empty() ? std::string_view() : node.outputs[0];
    const std::string_view constant = node.outputs.empty() ? node.name : output;
    const std::string_view owner = !node.name.empty() ? node.name
                                   : !output.empty()  ? output
                                                      : node.op;
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 5 || field.number == 10)
        inside(field, [&] { entry.tensor = tensor(field.bytes, constant, graph); });
      if (field.number == 6 || field.number == 11)
        inside(field, [&] {
          const std::size_t index = this->graph(field.bytes, graph);
          Graph& subgraph = model_.graphs[index];
          subgraph.node = model_.graphs[graph].nodes.size();
          subgraph.place = subgraphs++;
          subgraph.owner = owner;
          subgraph.attribute = entry.name;
          entry.graphs.push_back(index);
        });
      if (field.number == 22 || field.number == 23)
        find_kept(proto_, Kept::kSparse, field.bytes, model_.tensors);
    });
    node.attributes.push_back(std::move(entry));
  }

  std::size_t tensor(Range message, std::string_view owner, std::size_t graph) {
    check_count(proto_, model_.tensors.size());
    Tensor tensor = read_tensor(proto_, message, owner, frames_);
    count(tensor.frames.size());
    tensor.graph = graph;
    model_.tensors.push_back(std::move(tensor));
    return model_.tensors.size() - 1;
  }

  const Proto proto_;
  ModelFile model_;
  std::vector<std::uint64_t> frames_;
  std::size_t depth_ = 0, nodes_ = 0, names_ = 0;
};

}  // namespace

const Attribute* Node::find(std::string_view attribute) const noexcept {
  for (const Attribute& each : attributes)
    if (each.name == attribute) return &each;
  return nullptr;
}

std::int64_t Node::whole(std::string_view attribute, std::int64_t otherwise) const noexcept {
  const Attribute* found = find(attribute);
  return found ? found->whole : otherwise;
}

std::string scope_of(const ModelFile& model, std::size_t graph) {
  std::string scope;
  for (const Graph* at = &model.graphs[graph]; scope.size() <= kMaxTensorName;
       at = &model.graphs[*at->parent]) {
    std::string part;
    if (at->is_function) part.append(at->name.substr(0, kMaxTensorName)) += '/';
    if (at->parent) {
      part = at->owner.substr(0, kMaxTensorName);
      part.append(".").append(at->attribute.substr(0, kMaxTensorName)) += '/';
    }
    scope.insert(0, part);
    if (!at->parent) break;
  }
  return scope;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kMost = 128;
  return name.size() <= kMost ? printable(name) : printable(name.substr(0, kMost)) + "...";
}

ModelFile parse(std::span<const std::byte> bytes, const std::string& label) {
  if (bytes.empty()) throw Error(Errc::kTruncated, label + " is empty");
  if (bytes.size() > kMaxFile)
    throw Error(Errc::kLimit,
                label + " has " + std::to_string(bytes.size()) +
                    " bytes, and an ONNX file ends at 2 GiB; save the model with external data");
  ModelFile model = Parser(bytes, label).run();
  if (model.graphs.empty())
    throw Error(Errc::kCorrupt, label + " holds no graph; it is no ONNX model, or was cut short");
  sort_nodes(model, label);
  return model;
}

}  // namespace gbcompress::onnx
