#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "format/onnx/model.h"
#include "gbcompress/error.h"

namespace gbcompress::onnx {
namespace {

/// Calls visit(name) for what a node takes, also through its subgraphs, but for what those make
/// themselves.
void for_taken(const ModelFile& model, const Node& node,
               const std::function<void(std::string_view)>& visit) {
  for (const std::string_view name : node.inputs) visit(name);
  for (const Attribute& attribute : node.attributes)
    for (const std::size_t index : attribute.graphs) {
      const Graph& graph = model.graphs[index];
      std::unordered_set<std::string_view> own;
      for (const auto& [name, tensor] : graph.initializers) own.insert(name);
      for (const Node& inner : graph.nodes) own.insert(inner.outputs.begin(), inner.outputs.end());
      const auto outer = [&](std::string_view name) {
        if (!own.contains(name)) visit(name);
      };
      for (const Node& inner : graph.nodes) for_taken(model, inner, outer);
      for (const std::string_view name : graph.outputs) outer(name);
    }
}

}  // namespace

std::vector<std::size_t> sorted_nodes(const ModelFile& model, std::size_t graph,
                                      const std::string& label) {
  const std::vector<Node>& nodes = model.graphs[graph].nodes;
  std::unordered_map<std::string_view, std::size_t> makers;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string_view name : nodes[i].outputs)
      if (!name.empty()) makers.emplace(name, i);
  std::vector<std::size_t> waits(nodes.size()), order;
  std::vector<std::vector<std::size_t>> users(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for_taken(model, nodes[i], [&](std::string_view name) {
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
    if (waits[i] > 0)
      throw Error(Errc::kCorrupt,
                  label + ": nodes of its graph " + printable(model.graphs[graph].name) +
                      " form a cycle, through node " +
                      printable(nodes[i].name.empty() ? nodes[i].op : nodes[i].name) +
                      "; export the model again");
  return order;
}

}  // namespace gbcompress::onnx
