#include <unordered_map>
#include <unordered_set>

#include "format/onnx/model.h"
#include "gbcompress/error.h"

namespace gbcompress::onnx {
namespace {

using Names = std::vector<std::string_view>;

/// Calls visit(name) for what a node takes, also through its subgraphs.
/// @param outer  what each graph takes from those around it
template <typename Visit>
void for_taken(const Node& node, const std::vector<Names>& outer, Visit visit) {
  for (const std::string_view name : node.inputs) visit(name);
  for (const Attribute& attribute : node.attributes)
    for (const std::size_t graph : attribute.graphs)
      for (const std::string_view name : outer[graph]) visit(name);
}

/// What a graph takes from those around it, each name once: its own values, and its inputs, hide
/// outer ones of the same name.
Names taken_from_outside(const Graph& graph, const std::vector<Names>& outer) {
  std::unordered_set<std::string_view> known(graph.inputs.begin(), graph.inputs.end());
  for (const auto& [name, tensor] : graph.initializers) known.insert(name);
  for (const Node& node : graph.nodes) known.insert(node.outputs.begin(), node.outputs.end());
  Names taken;
  const auto take = [&](std::string_view name) {
    if (known.insert(name).second) taken.push_back(name);
  };
  for (const Node& node : graph.nodes) for_taken(node, outer, take);
  for (const std::string_view name : graph.outputs) take(name);
  return taken;
}

[[noreturn]] void refuse_cycle(const Graph& graph, const Node& node, const std::string& label) {
  throw Error(Errc::kCorrupt, label + ": nodes of its graph " + shown_name(graph.name) +
                                  " form a cycle, through node " +
                                  shown_name(node.name.empty() ? node.op : node.name) +
                                  "; export the model again");
}

std::vector<std::size_t> sorted(const Graph& graph, const std::vector<Names>& outer,
                                const std::string& label) {
  const std::vector<Node>& nodes = graph.nodes;
  std::unordered_map<std::string_view, std::size_t> makers;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string_view name : nodes[i].outputs)
      if (!name.empty()) makers.emplace(name, i);
  std::vector<std::size_t> waits(nodes.size()), order;
  std::vector<std::vector<std::size_t>> users(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for_taken(nodes[i], outer, [&](std::string_view name) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) return;
      users[maker->second].push_back(i);
      ++waits[i];
    });
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) order.push_back(i);
  for (std::size_t k = 0; k < order.size(); ++k)
    for (const std::size_t user : users[order[k]])
      if (--waits[user] == 0) order.push_back(user);
  if (order.size() == nodes.size()) return order;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] > 0) refuse_cycle(graph, nodes[i], label);
  return order;
}

}  // namespace

void sort_nodes(ModelFile& model, const std::string& label) {
  std::vector<Names> outer(model.graphs.size());
  // Subgraphs come behind their parents.
  for (std::size_t i = model.graphs.size(); i-- > 0;) {
    Graph& graph = model.graphs[i];
    graph.order = sorted(graph, outer, label);
    if (graph.parent) outer[i] = taken_from_outside(graph, outer);
    for (const Node& node : graph.nodes)
      for (const Attribute& attribute : node.attributes)
        for (const std::size_t inner : attribute.graphs) outer[inner] = {};
  }
}

}  // namespace gbcompress::onnx
