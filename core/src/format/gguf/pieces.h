#pragma once
/// Tensors of blocks that are too large to be coded at once, as pieces: whole rows of bounded size.

#include <cstdint>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/gguf/model.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

/// Elements of a piece, at most: what coding one takes in memory is some twenty times as many
/// bytes.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 24;

/// An entry of the bundle.
struct Piece {
  std::string name;                 ///< the tensor's, or with its rows behind it: "w[0:4096]"
  std::vector<std::int64_t> shape;  ///< of elements, row-major, as many sides as the tensor has
  std::uint64_t offset = 0;         ///< from the beginning of the file
  std::uint64_t size = 0;           ///< bytes
};

/// The tensor as it is, or, where it has no DType and more than `most` elements, in pieces that
/// follow each other without a gap: ranges of the first dimension whose slices have at most `most`
/// elements. Dimensions before that one have an index: "experts[3,0:512]". Of a type that
/// find_type() does not know, elements are bytes.
/// @param tensor  has elements
/// @param most    at least a block
std::vector<Piece> pieces_of(const GgufTensor& tensor, std::int64_t most = kPieceElements);

}  // namespace gguf
}  // namespace gbcompress
