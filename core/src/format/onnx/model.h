#pragma once
/// What an ONNX file says: graphs, nodes, and where the elements of its tensors are
/// (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto). Names point into the file's bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/internal.h"
#include "format/container.h"
#include "format/onnx/proto.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

inline constexpr std::size_t kMaxNodes = 1'000'000, kMaxDepth = 64;
/// Names of values together with attributes and subgraphs, each as many as it takes of memory.
inline constexpr std::size_t kMaxNames = 10'000'000, kNamesOfAttribute = 8, kNamesOfGraph = 16;
/// Protocol buffers end here.
inline constexpr std::uint64_t kMaxFile = (std::uint64_t{1} << 31) - 1;

/// Data in a file beside the model.
struct External {
  std::string_view location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  bool whole = false;  ///< the bytes are the tensor's elements; false: they stay in their file
};

struct Tensor {
  std::string_view own_name;  ///< as the file has it: of an initializer, or of a node's output
  std::size_t graph = 0;      ///< that it is a constant of
  int type = 0;               ///< TensorProto.DataType
  std::vector<std::int64_t> shape;
  /// Where the elements are; unset: they stay among the file's other bytes (strings, packed fields
  /// in several pieces).
  std::optional<Range> payload;
  PayloadEncoding encoding = PayloadEncoding::kBytes;
  std::optional<External> external;
  std::size_t file = 0;  ///< 0: the model's own; else 1 + index of an external file
  std::vector<std::uint64_t>
      frames;  ///< length_position() of every message around the payload, and its own
};

struct Attribute {
  std::string_view name;
  std::int64_t whole = 0;
  float real = 0;
  std::string_view text;
  std::vector<std::int64_t> wholes;  ///< the first 16
  std::optional<std::size_t> tensor;
  std::vector<std::size_t> graphs;
};

struct Node {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const noexcept;
  std::int64_t whole(std::string_view attribute, std::int64_t otherwise) const noexcept;
  bool is_standard() const noexcept { return domain.empty() || domain == "ai.onnx"; }
};

struct Graph {
  std::string_view name;
  std::optional<std::size_t> parent;  ///< the graph whose values it sees
  std::size_t node = 0, place = 0;    ///< the parent's node, and which of that node's graphs
  bool is_function = false;           ///< a model-local function
  std::string_view domain;            ///< of a function
  std::string_view owner, attribute;  ///< of a subgraph: the node's name, and the attribute's
  std::vector<std::string_view> inputs;
  std::vector<Node> nodes;
  std::vector<std::size_t> order;  ///< of nodes: each comes after those whose outputs it takes
  std::vector<std::pair<std::string_view, std::size_t>> initializers;  ///< name and tensor
  std::vector<std::string_view> outputs;
};

struct ModelFile {
  std::int64_t ir_version = 0;
  std::string producer;
  std::vector<std::pair<std::string, std::int64_t>> opsets;  ///< domain and version
  std::vector<Graph> graphs;                                 ///< parents before their subgraphs
  std::vector<Tensor> tensors;
};

/// @param bytes  must outlive the result
/// @throws Error(kTruncated) for an empty file; Error(kCorrupt) for damage, a cycle among the nodes
///         of a graph, and a tensor whose size does not fit its shape; Error(kLimit) above
///         kMaxFile, kMaxNodes, kMaxNames or kMaxDepth
ModelFile parse(std::span<const std::byte> bytes, const std::string& label);

/// Sets the order of every graph's nodes.
/// @throws Error(kCorrupt) naming a node of a cycle
void sort_nodes(ModelFile& model, const std::string& label);

/// "If_0.then_branch/", "function/"; "" for the main graph. Cut off where it is longer than a
/// tensor's name may be.
std::string scope_of(const ModelFile& model, std::size_t graph);

/// A name for messages: printable, and cut off where it is long.
std::string shown_name(std::string_view name);

}  // namespace onnx
}  // namespace gbcompress
