#pragma once
/// Which nodes of an ONNX graph take which of its weights: where their other inputs can be
/// measured.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/internal.h"
#include "format/onnx/open.h"
#include "format/onnx/proto.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// From the main graph: a node of each graph on the way, in the file's order, and which of the
/// graphs in its attributes. Empty: the main graph.
using GraphPath = std::vector<std::pair<std::size_t, std::size_t>>;

/// A node that takes a tensor as its weight, or as a part of it.
struct ViewedUse {
  std::string tensor;            ///< its name, as in the bundle of read_model()
  GraphPath graph;               ///< the node's
  std::size_t node = 0;          ///< in the file's order
  std::size_t input = 0;         ///< of the node
  bool transposed = false;       ///< the node sees the last two axes in the other order
  bool reshaped = false;         ///< the node sees another shape
  bool computed = false;         ///< the node sees an expression of it and other constants
  std::int64_t rows = 0;         ///< of the matrix that the tensor is rounded as; 0: its first side
  std::optional<Range> payload;  ///< of its elements in the model's file, row-major
};

using GraphView = std::vector<ViewedUse>;

/// Weights that a node takes as one value with others (Concat), and those of functions, are left
/// out.
/// @param bytes  must outlive the call
/// @throws as read_model()
GraphView view_graph(std::span<const std::byte> bytes, const std::string& label,
                     const ExternalFile& external);

/// @throws also as MappedFile
GraphView view_graph(const std::filesystem::path& path);

}  // namespace onnx
}  // namespace gbcompress
