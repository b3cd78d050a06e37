#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/file_digest.h"
#include "artifact/narrow.h"
#include "artifact/read_many.h"
#include "artifact/sections/planes.h"
#include "base/checked.h"
#include "base/fresh_memory.h"
#include "base/mapped_inputs.h"
#include "base/optional_parts.h"
#include "base/parallel.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Elements [first, first + count) of a tensor that is not tied.
struct Slice {
  std::size_t tensor;
  DType own, dtype;  ///< as stored, as read
  std::int64_t first, count;
  std::span<std::byte> out;

  /// Bytes of so many elements; whole ones.
  static std::size_t bytes(DType dtype, std::int64_t elements) {
    return static_cast<std::size_t>(elements * dtype_bits(dtype) / 8);
  }
  /// Takes what it needs of elements [from, from + n).
  /// @param made  these, of type `type`
  void take(std::int64_t from, std::int64_t n, DType type, std::span<const std::byte> made) const {
    const std::int64_t begin = std::max(first, from), end = std::min(first + count, from + n);
    if (begin >= end) return;
    convert_elements(made.subspan(bytes(type, begin - from), bytes(type, end - begin)), type, dtype,
                     out.subspan(bytes(dtype, begin - first), bytes(dtype, end - begin)));
  }
  /// Bytes of whole elements only.
  bool holds(std::int64_t from, std::int64_t n) const noexcept {
    return dtype_bits(dtype) >= 8 && first <= from && from + n <= first + count;
  }
  bool touches(std::int64_t from, std::int64_t n) const noexcept {
    return from < first + count && first < from + n;
  }
};

void from_lanes(const ArtifactReader& artifact, const Slice& slice, int threads) {
  const DirectValues values(artifact, slice.tensor);
  const auto& parts = values.parts();
  parallel_tasks(threads, static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
    const LanesPart& part = parts[static_cast<std::size_t>(i)];
    if (!slice.touches(part.first, part.size)) return;
    const bool all = slice.holds(part.first, part.size);
    const std::size_t size = Slice::bytes(slice.dtype, part.size);
    std::vector<std::byte> made;
    if (!all) resize_fresh(made, size);
    values.read(static_cast<std::size_t>(i), slice.dtype,
                all ? slice.out.subspan(Slice::bytes(slice.dtype, part.first - slice.first), size)
                    : std::span(made));
    if (!all) slice.take(part.first, part.size, slice.dtype, made);
  });
}

void from_planes(const PlanesReader& planes, const Slice& slice, int threads) {
  const auto stripe = static_cast<std::int64_t>(kPlaneStripe) * 8 / dtype_bits(slice.own);
  const std::int64_t begin = slice.first / stripe;
  const std::int64_t end = (slice.first + slice.count + stripe - 1) / stripe;
  parallel_tasks(threads, end - begin, [&](std::int64_t n) {
    const auto i = static_cast<std::size_t>(begin + n);
    std::vector<std::byte> made, scratch;
    resize_fresh(made, planes.bytes_of(i));
    resize_fresh(scratch, planes.bytes_of(i));
    planes.read(i, made, scratch);
    const auto size = static_cast<std::int64_t>(made.size()) * 8 / dtype_bits(slice.own);
    slice.take((begin + n) * stripe, size, slice.own, made);
  });
}

void read(const ArtifactReader& artifact, const Slice& slice, const DecodeOptions& options) {
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  const auto& shape = artifact.tensors()[slice.tensor].shape;
  if (DirectValues::fits(artifact, slice.tensor)) return from_lanes(artifact, slice, threads);
  if (optional_parts::kPlanes)
    if (const auto planes = artifact.planes(slice.tensor))
      return from_planes(*planes, slice, threads);
  const std::int64_t all = checked_elements(shape, "a tensor");
  if (const auto stored = artifact.as_stored(slice.tensor); !stored.empty())
    return slice.take(0, all, slice.own, stored);
  slice.take(0, all, slice.own, decode_elements(artifact, slice.tensor, options).bytes());
}

}  // namespace

void check_slice(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                 std::int64_t first, std::span<const std::byte> bytes) {
  check_type(artifact, tensor, dtype, bytes);
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const auto bits = static_cast<std::size_t>(dtype_bits(dtype));
  const std::int64_t all = checked_elements(entry.shape, "a tensor");
  const auto count = static_cast<std::int64_t>(bytes.size() * 8 / bits);
  const bool whole = bytes.size() * 8 % bits == 0 &&
                     (bits >= 8 || first * static_cast<std::int64_t>(bits) % 8 == 0);
  if (first < 0 || first > all || count > all - first || !whole)
    throw Error(Errc::kShapeMismatch, printable(entry.name) + " has " + std::to_string(all) +
                                          " elements; those from " + std::to_string(first) +
                                          " on are not " + std::to_string(bytes.size()) +
                                          " bytes as " + std::string(dtype_name(dtype)));
}

void read_slice(const ArtifactReader& artifact, std::size_t tensor, DType dtype, std::int64_t first,
                std::span<std::byte> bytes, const DecodeOptions& options) {
  check_slice(artifact, tensor, dtype, first, bytes);
  const std::size_t owner = owner_of(artifact, tensor);
  const ArtifactTensor& entry = artifact.tensors()[owner];
  const auto count =
      static_cast<std::int64_t>(bytes.size()) * 8 / static_cast<std::int64_t>(dtype_bits(dtype));
  if (count == 0) return;
  blame_damage(artifact, [&] {
    read(artifact, {owner, entry.dtype, dtype, first, count, bytes}, options);
  });
  check_mapped_inputs();
  check_range(artifact, owner, dtype, bytes, options);
}

}  // namespace gbcompress
