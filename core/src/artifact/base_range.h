#pragma once
/// Elements of a base that a tensor is made of.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "artifact/header/header.h"
#include "base/checked.h"
#include "gbcompress/artifact.h"
#include "gbcompress/base_model.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// All elements of the tensor of the same name.
inline BaseRange namesake_of(const ArtifactTensor& tensor) {
  return {tensor.base,   tensor.name, tensor.dtype,
          &tensor.shape, 0,           checked_elements(tensor.shape, "a tensor")};
}
/// What blocks are made of.
inline BaseRange source_of(const ArtifactTensor& tensor) {
  const BlockSource& source = tensor.source;
  return {tensor.base,   source.name,  source.dtype,
          &source.shape, source.first, block_elements(tensor)};
}
/// Of a piece with a base.
inline BaseRange range_of(const ArtifactTensor& tensor, const TensorPiece& piece) {
  return {piece.base,   piece.name.empty() ? tensor.name : piece.name,
          tensor.dtype, nullptr,
          piece.first,  piece.elements};
}

/// Whether a tensor has these elements, and as many bytes as it says.
/// @param bytes  of the tensor
inline bool has_range(const BaseRange& range, DType dtype, std::span<const std::int64_t> shape,
                      std::size_t bytes) {
  if (dtype != range.dtype ||
      (range.shape &&
       !std::equal(shape.begin(), shape.end(), range.shape->begin(), range.shape->end())))
    return false;
  const std::int64_t all = checked_elements(shape, "a tensor");
  if (range.first > all || range.elements > all - range.first) return false;
  return static_cast<std::int64_t>(bytes) * 8 == checked_mul(all, dtype_bits(dtype), "a tensor");
}

/// @param found  of the range's name: with dtype, shape and bytes; or null
/// @throws Error(kCorrupt) where it has not the elements of the range
template <typename Tensor>
std::span<const std::byte> bytes_of(const BaseRange& range, const Tensor* found) {
  if (!found || !has_range(range, found->dtype, found->shape, found->bytes.size()))
    throw Error(Errc::kCorrupt,
                "the base has no tensor " + printable(std::string(range.name)) +
                    (range.shape ? " of the type and shape that the file says"
                                 : " of the type that the file says with as many elements"));
  if (range.elements == checked_elements(found->shape, "a tensor")) return found->bytes;
  const auto width = static_cast<std::size_t>(dtype_bits(range.dtype) / 8);
  return found->bytes.subspan(static_cast<std::size_t>(range.first) * width,
                              static_cast<std::size_t>(range.elements) * width);
}

}  // namespace gbcompress
