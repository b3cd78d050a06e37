#pragma once
/// What the graph says about its tensors: which ones weight-consuming operators take, and how their
/// elements lie.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/internal.h"
#include "format/onnx/model.h"
#include "format/tensor_hint.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// One for each tensor of the model.
std::vector<TensorHint> roles(const ModelFile& model);

/// A node that takes a tensor, by itself or in an expression of constants, as its weight. Graphs,
/// nodes and tensors are indices in the model.
struct WeightUse {
  std::size_t tensor = 0, graph = 0, node = 0, input = 0;
  bool transposed = false, reshaped = false;  ///< on the way from the tensor to the node
  bool computed = false;                      ///< by operators that change its elements
  std::int64_t rows = 0;                      ///< the hint's
};

/// In the order of the graphs; of tensors whose hint is a weight.
std::vector<WeightUse> weight_uses(const ModelFile& model);

/// How the main graph leads to one of its subgraphs: a node of each graph on the way, and which of
/// the graphs in its attributes; nothing for graphs of functions.
std::optional<std::vector<std::pair<std::size_t, std::size_t>>> path_to(const ModelFile& model,
                                                                        std::size_t graph);

}  // namespace onnx
}  // namespace gbcompress
