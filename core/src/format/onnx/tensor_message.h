#pragma once
/// Messages of ONNX that hold the elements of tensors.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/onnx/model.h"
#include "format/onnx/proto.h"

namespace gbcompress::onnx {

/// The whole numbers of a field, packed or one, up to `most` of them.
/// @throws Error(kCorrupt) for a list that ends inside of one
void read_wholes(const Proto& proto, const Field& field, std::size_t most,
                 std::vector<std::int64_t>& into);

/// A TensorProto: where its elements are, if they are in one piece.
/// @param owner   the output of the node that it is a constant of; empty: the message has its name
/// @param frames  length_position() of the messages around the elements' field, outermost first
/// @throws Error(kCorrupt, kLimit) for elements that do not fit the shape
Tensor read_tensor(const Proto& proto, Range message, std::string_view owner,
                   std::span<const std::uint64_t> frames);

/// @throws Error(kLimit): one more tensor is too many
void check_count(const Proto& proto, std::size_t tensors);
/// @throws Error(kLimit) that says that graphs are nested too deep
[[noreturn]] void refuse_depth(const Proto& proto);

/// Messages whose tensors stay in their files.
enum class Kept { kTensor, kSparse, kAttribute, kNode, kGraph, kTraining };

/// Appends those of their tensors that have their elements beside the model.
/// @throws Error(kLimit) above kMaxTensors or kMaxDepth; Error(kCorrupt)
void find_kept(const Proto& proto, Kept kind, Range message, std::vector<Tensor>& into);

}  // namespace gbcompress::onnx
