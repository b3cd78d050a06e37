#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/checked.h"
#include "format/onnx/model.h"
#include "format/onnx/types.h"
#include "format/tensor_bundle.h"

namespace gbcompress::onnx {
namespace {

constexpr std::size_t kMostWholes = 16;
constexpr int kFunctionNodes = 7;

/// What a TensorProto holds, field by field.
struct Parts {
  Tensor tensor;
  Range data;
  std::uint32_t data_field = 0;  ///< 0: none
  std::size_t data_fields = 0;
  std::uint64_t data_frame = 0;
  bool in_pieces = false, outside = false;
  External external;
};

/// Fields of TensorProto that hold elements.
enum DataField : std::uint32_t {
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& label) : proto_(bytes, label) {}

  ModelFile run() {
    proto_.for_fields(proto_.all(), [&](const Field& field) {
      if (field.number == 1 && field.is_varint()) model_.ir_version = field.whole();
      if (!field.is_bytes()) return;
      if (field.number == 2) model_.producer = proto_.text(field.bytes);
      if (field.number == 7) inside(field, [&] { graph(field.bytes, {}, ""); });
      if (field.number == 8) opset(field.bytes);
      if (field.number == 25) inside(field, [&] { function(field.bytes); });
    });
    return std::move(model_);
  }

 private:
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Errc::kCorrupt, proto_.label() + ": " + what);
  }

  /// Parses a message that may hold tensors.
  template <typename Body>
  void inside(const Field& field, Body body) {
    frames_.push_back(proto_.length_position(field.bytes));
    body();
    frames_.pop_back();
  }

  std::string_view name_in(const Field& field) {
    if (++names_ > kMaxNames)
      throw Error(Errc::kLimit, proto_.label() + " has more than " + std::to_string(kMaxNames) +
                                    " names of values");
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
    model_.graphs.emplace_back().parent = parent;
    return model_.graphs.size() - 1;
  }

  std::size_t graph(Range message, std::optional<std::size_t> parent, const std::string& scope) {
    if (++depth_ > kMaxDepth)
      throw Error(Errc::kLimit, proto_.label() + " has graphs inside of graphs, more than " +
                                    std::to_string(kMaxDepth) + " deep");
    const std::size_t index = new_graph(parent);
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 1) inside(field, [&] { node(field.bytes, index, scope); });
      if (field.number == 2) model_.graphs[index].name = proto_.text(field.bytes);
      if (field.number == 5)
        inside(field, [&] {
          const auto tensor = this->tensor(field.bytes, {}, scope);
          model_.graphs[index].initializers.emplace_back(model_.tensors[tensor].own_name, tensor);
        });
      if (field.number == 12) output(field.bytes, index);
    });
    --depth_;
    return index;
  }

  void output(Range message, std::size_t graph) {
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes())
        model_.graphs[graph].outputs.push_back(name_in(field));
    });
  }

  void function(Range message) {
    std::string_view name;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) name = proto_.text(field.bytes);
    });
    const std::size_t index = new_graph({});
    model_.graphs[index].name = name;
    model_.graphs[index].is_function = true;
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == kFunctionNodes)
        inside(field, [&] { node(field.bytes, index, std::string(name) + "/"); });
      if (field.number == 5) model_.graphs[index].outputs.push_back(name_in(field));
    });
  }

  void node(Range message, std::size_t graph, const std::string& scope) {
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
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 5 && field.is_bytes())
        inside(field, [&] { attribute(field.bytes, node, graph, scope); });
    });
    model_.graphs[graph].nodes.push_back(std::move(node));
  }

  void attribute(Range message, Node& node, std::size_t graph, const std::string& scope) {
    Attribute entry;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) entry.name = proto_.text(field.bytes);
      if (field.number == 2 && field.type == protozero::pbf_wire_type::fixed32)
        entry.real = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
      if (field.number == 3 && field.is_varint()) entry.whole = field.whole();
      if (field.number == 4 && field.is_bytes()) entry.text = proto_.text(field.bytes);
      if (field.number == 8) wholes(field, entry.wholes, kMostWholes);
    });
    const std::string node_name(!node.name.empty()      ? node.name
                                : !node.outputs.empty() ? node.outputs[0]
                                                        : node.op);
    const std::string inner = scope + node_name + "." + std::string(entry.name) + "/";
    const std::string_view owner = node.outputs.empty() ? node.name : node.outputs[0];
    proto_.for_fields(message, [&](const Field& field) {
      if (!field.is_bytes()) return;
      if (field.number == 5 || field.number == 10)
        inside(field, [&] { entry.tensor = tensor(field.bytes, owner, scope); });
      if (field.number == 6 || field.number == 11)
        inside(field, [&] {
          const std::size_t subgraph = this->graph(field.bytes, graph, inner);
          model_.graphs[subgraph].node = model_.graphs[graph].nodes.size();
          model_.graphs[subgraph].place = node.subgraphs() + entry.graphs.size();
          entry.graphs.push_back(subgraph);
        });
    });
    node.attributes.push_back(std::move(entry));
  }

  /// Packed varints or one.
  void wholes(const Field& field, std::vector<std::int64_t>& into, std::size_t most) const {
    if (field.is_varint() && into.size() < most) into.push_back(field.whole());
    if (!field.is_bytes()) return;
    const std::string_view text = proto_.text(field.bytes);
    const char* at = text.data();
    try {
      while (at != text.data() + text.size() && into.size() < most)
        into.push_back(
            static_cast<std::int64_t>(protozero::decode_varint(&at, text.data() + text.size())));
    } catch (const protozero::exception&) {
      corrupt("a list of numbers ends inside of one; the file is damaged");
    }
  }

  std::uint64_t decimal(std::string_view text, const char* what) const {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      corrupt(std::string("the ") + what + " of external data is no number: " + printable(text));
    return value;
  }

  void external(Range message, External& into) const {
    std::string_view key, value;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) key = proto_.text(field.bytes);
      if (field.number == 2 && field.is_bytes()) value = proto_.text(field.bytes);
    });
    if (key == "location") into.location = value;
    if (key == "offset") into.offset = decimal(value, "offset");
    if (key == "length") into.length = decimal(value, "length");
  }

  /// @param owner  the output of the node that it is a constant of
  std::size_t tensor(Range message, std::string_view owner, const std::string& scope) {
    if (model_.tensors.size() >= kMaxTensors)
      throw Error(Errc::kLimit, proto_.label() + " has more than 1,000,000 tensors");
    Parts parts;
    Tensor& tensor = parts.tensor;
    tensor.own_name = owner;
    tensor.scope = scope;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1) wholes(field, tensor.shape, kMaxTensorRank + 1);
      if (field.number == 2 && field.is_varint())
        tensor.type = static_cast<int>(std::min<std::uint64_t>(field.value, 1 << 30));
      if (field.number == 8 && field.is_bytes() && owner.empty())
        tensor.own_name = proto_.text(field.bytes);
      if (field.number == 13 && field.is_bytes()) external(field.bytes, parts.external);
      if (field.number == 14 && field.is_varint()) parts.outside = field.value == 1;
      if (field.number == 3) parts.in_pieces = true;  // a segment of a larger tensor
      data(field, parts);
    });
    place(parts);
    model_.tensors.push_back(std::move(tensor));
    return model_.tensors.size() - 1;
  }

  void data(const Field& field, Parts& parts) const {
    switch (field.number) {
      case kFloatData:
      case kInt32Data:
      case kStringData:
      case kInt64Data:
      case kRawData:
      case kDoubleData:
      case kUint64Data:
        break;
      default:
        return;
    }
    ++parts.data_fields;
    if (!field.is_bytes()) {
      parts.in_pieces = true;
      return;
    }
    parts.data_field = field.number;
    parts.data = field.bytes;
    parts.data_frame = proto_.length_position(field.bytes);
  }

  /// Where the elements are, if they are in one piece, and whether they fit the shape.
  void place(Parts& parts) {
    Tensor& tensor = parts.tensor;
    const int bits = type_bits(tensor.type);
    if (bits == 0 || parts.in_pieces || tensor.shape.size() > kMaxTensorRank) return;
    const std::string what = proto_.label() + ": tensor " + printable(tensor.own_name);
    if (std::any_of(tensor.shape.begin(), tensor.shape.end(),
                    [](std::int64_t side) { return side < 0; }))
      throw Error(Errc::kCorrupt, what + " has a negative side");
    const std::string size = what + ": its size";
    const std::int64_t elements = checked_elements(tensor.shape, size.c_str());
    const std::int64_t bytes = (checked_mul(elements, bits, size.c_str()) + 7) / 8;
    if (parts.outside) {
      if (parts.external.location.empty())
        corrupt("tensor " + printable(tensor.own_name) + " names no file of its data");
      if (parts.external.length && *parts.external.length != static_cast<std::uint64_t>(bytes))
        misfit(what, *parts.external.length, bytes);
      parts.external.length = static_cast<std::uint64_t>(bytes);
      tensor.external = parts.external;
      return;
    }
    if (parts.data_fields > 1) return;
    const bool whole = parts.data_field == kRawData || parts.data_field == kFloatData ||
                       parts.data_field == kDoubleData;
    if (parts.data_field == 0 ? bytes > 0
                              : whole && parts.data.size != static_cast<std::uint64_t>(bytes))
      misfit(what, parts.data.size, bytes);
    if (parts.data_field == 0 || parts.data_field == kStringData) return;
    tensor.payload = parts.data;
    if (!whole) check_varints(parts, elements, what);
  }

  void check_varints(Parts& parts, std::int64_t elements, const std::string& what) {
    Tensor& tensor = parts.tensor;
    const auto bytes = proto_.bytes(parts.data);
    const auto ends = std::count_if(bytes.begin(), bytes.end(), [](std::byte byte) {
      return (byte & std::byte{0x80}) == std::byte{0};
    });
    const std::int64_t in_byte = type_bits(tensor.type) < 8 ? 8 / type_bits(tensor.type) : 1;
    const std::int64_t wanted = (elements + in_byte - 1) / in_byte;
    if (ends != wanted)
      throw Error(Errc::kCorrupt, what + " has " + std::to_string(ends) +
                                      " values, and its shape requires " + std::to_string(wanted));
    tensor.encoding = PayloadEncoding::kVarint;
    tensor.frames = frames_;
    tensor.frames.push_back(parts.data_frame);
  }

  [[noreturn]] static void misfit(const std::string& what, std::uint64_t has, std::int64_t wanted) {
    throw Error(Errc::kCorrupt, what + " has " + std::to_string(has) +
                                    " bytes, and its shape requires " + std::to_string(wanted));
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

std::size_t Node::subgraphs() const noexcept {
  std::size_t count = 0;
  for (const Attribute& each : attributes) count += each.graphs.size();
  return count;
}

std::int64_t Node::whole(std::string_view attribute, std::int64_t otherwise) const noexcept {
  const Attribute* found = find(attribute);
  return found ? found->whole : otherwise;
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
  for (std::size_t graph = 0; graph < model.graphs.size(); ++graph)
    sorted_nodes(model, graph, label);
  return model;
}

}  // namespace gbcompress::onnx
