#pragma once
/// Tensors described by sizes, strides and an offset into a storage, as PyTorch saves them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// Copies a strided tensor of at least one element into row-major order.
/// @param strides  in elements
/// @param item     bytes of an element
void gather_strided(const std::byte* from, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides, std::int64_t item, std::byte* to);

/// The elements of a tensor along the dimensions of `order`, as TensorEntry::stored has them.
/// @param bytes  row-major
/// @param order  each dimension of `shape` once
/// @param item   bytes of an element
std::vector<std::byte> in_order_of(std::span<const std::byte> bytes,
                                   const std::vector<std::int64_t>& shape,
                                   std::span<const std::uint8_t> order, std::int64_t item);

/// Gives tensors their row-major bytes. Contiguous ones are views of the storage; others are
/// copied.
class StridedReader {
 public:
  /// @param bundle      owns the copies; must outlive the reader
  /// @param file_bytes  at most four times as many are copied
  StridedReader(TensorBundle& bundle, std::uint64_t file_bytes)
      : bundle_(bundle), copy_budget_(4 * file_bytes) {}

  /// Sets entry.bytes, and stored and order where they differ; entry.dtype and entry.shape must
  /// pass tensor_bytes().
  /// @param offset  in elements
  /// @param what    the tensor, for messages
  /// @throws Error(kCorrupt) where it reaches beyond the storage; Error(kLimit)
  void read(TensorEntry& entry, std::span<const std::byte> storage, std::int64_t offset,
            const std::vector<std::int64_t>& strides, const std::string& what);
  /// Room that the bundle owns, within the same bound.
  std::span<std::byte> own(std::size_t size, const std::string& what);

 private:
  TensorBundle& bundle_;
  std::uint64_t copy_budget_;
};

}  // namespace gbcompress
