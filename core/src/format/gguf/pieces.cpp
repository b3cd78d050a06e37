#include "format/gguf/pieces.h"

#include <algorithm>

#include "format/gguf/types.h"
#include "format/tensor_bundle.h"

namespace gbcompress::gguf {
namespace {

/// Characters of a piece's name behind the tensor's, at most.
constexpr std::size_t kRangeText = 128;

/// The dimension that is cut, and what one of its steps takes.
struct Cut {
  std::size_t dimension = 0;
  std::int64_t step = 1;      ///< elements along the dimension that stay together
  std::int64_t elements = 1;  ///< of all dimensions behind it
};

/// The dimension whose slices fit, where those of the one in front do not.
Cut cut_of(const std::vector<std::int64_t>& shape, std::int64_t block, std::int64_t most) {
  std::int64_t slice = 1;
  std::size_t d = shape.size() - 1;
  for (; d > 0 && slice * shape[d] <= most; --d) slice *= shape[d];
  return {d, d + 1 == shape.size() ? block : 1, slice};
}

/// "[3,0:512]": indices of the dimensions in front, then the range.
std::string range_text(const std::vector<std::int64_t>& shape, std::size_t dimension,
                       std::int64_t prefix, std::int64_t first, std::int64_t end) {
  std::string text;
  for (std::size_t d = dimension; d-- > 0; prefix /= shape[d])
    text.insert(0, std::to_string(prefix % shape[d]) + ",");
  return "[" + text + std::to_string(first) + ":" + std::to_string(end) + "]";
}

}  // namespace

std::vector<Piece> pieces_of(const GgufTensor& tensor, std::int64_t most) {
  const Type* type = find_type(tensor.type);
  std::vector<std::int64_t> shape = tensor.shape;
  if (!type) shape = {static_cast<std::int64_t>(tensor.size)};
  const std::int64_t block = type ? type->elements : 1, bytes = type ? type->bytes : 1;
  std::int64_t elements = 1;
  for (const std::int64_t side : shape) elements *= side;
  if ((type && type->dtype) || elements <= most || tensor.name.size() + kRangeText > kMaxTensorName)
    return {{tensor.name, std::move(shape), tensor.offset, tensor.size}};
  const Cut cut = cut_of(shape, block, most);
  const std::int64_t side = shape[cut.dimension];
  const std::int64_t steps = side / cut.step;
  const std::int64_t fit = std::max<std::int64_t>(1, most / (cut.step * cut.elements));
  // Pieces of about one size.
  const std::int64_t count = (steps + fit - 1) / fit, each = (steps + count - 1) / count;
  std::int64_t prefixes = 1;
  for (std::size_t d = 0; d < cut.dimension; ++d) prefixes *= shape[d];
  std::vector<Piece> pieces;
  std::uint64_t offset = tensor.offset;
  for (std::int64_t prefix = 0; prefix < prefixes; ++prefix)
    for (std::int64_t first = 0; first < side;) {
      const std::int64_t end = std::min(side, first + each * cut.step);
      Piece piece{tensor.name + range_text(shape, cut.dimension, prefix, first, end), shape, offset,
                  static_cast<std::uint64_t>((end - first) * cut.elements / block * bytes)};
      std::fill_n(piece.shape.begin(), cut.dimension, 1);
      piece.shape[cut.dimension] = end - first;
      offset += piece.size;
      pieces.push_back(std::move(piece));
      first = end;
    }
  return pieces;
}

}  // namespace gbcompress::gguf
