#include "format/torch/strided.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "gbcompress/error.h"

namespace gbcompress {
void gather_strided(const std::byte* from, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides, std::int64_t item, std::byte* to) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t at = 0;;) {
    std::memcpy(to, from + at * item, static_cast<std::size_t>(item));
    to += item;
    std::size_t d = shape.size();
    while (d-- > 0) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
      if (d == 0) return;
    }
  }
}

std::vector<std::byte> in_order_of(std::span<const std::byte> bytes,
                                   const std::vector<std::int64_t>& shape,
                                   std::span<const std::uint8_t> order, std::int64_t item) {
  if (shape.empty()) return {bytes.begin(), bytes.end()};
  std::vector<std::int64_t> own(shape.size(), 1), sides, strides;
  for (std::size_t d = shape.size(); d-- > 1;) own[d - 1] = own[d] * shape[d];
  for (const std::uint8_t d : order) {
    sides.push_back(shape[d]);
    strides.push_back(own[d]);
  }
  std::vector<std::byte> result(bytes.size());
  if (!bytes.empty()) gather_strided(bytes.data(), sides, strides, item, result.data());
  return result;
}

namespace {

/// The dimensions from the longest stride to the shortest; nothing where these leave gaps or
/// overlap.
std::vector<std::uint8_t> order_of(const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& strides) {
  std::vector<std::uint8_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  // A stride of a dimension of one position says nothing.
  std::stable_sort(order.begin(), order.end(), [&](std::uint8_t a, std::uint8_t b) {
    if (shape[a] == 1 || shape[b] == 1) return shape[a] == 1 && shape[b] != 1;
    return strides[a] > strides[b];
  });
  std::int64_t elements = 1;
  for (std::size_t i = order.size(); i-- > 0; elements *= shape[order[i]])
    if (shape[order[i]] != 1 && strides[order[i]] != elements) return {};
  return order;
}

}  // namespace

std::span<std::byte> StridedReader::own(std::size_t size, const std::string& what) {
  // Overlapping strides could need far more than the file holds.
  if (size > copy_budget_)
    throw Error(Errc::kLimit, what +
                                  " repeats its storage many times over; save a .contiguous() copy "
                                  "of it");
  copy_budget_ -= size;
  auto copy = std::make_shared<std::vector<std::byte>>(size);
  const std::span<std::byte> result(*copy);
  bundle_.owners.push_back(std::move(copy));
  return result;
}

void StridedReader::read(TensorEntry& entry, std::span<const std::byte> storage,
                         std::int64_t offset, const std::vector<std::int64_t>& strides,
                         const std::string& what) {
  if (strides.size() != entry.shape.size() || offset < 0)
    throw Error(Errc::kCorrupt, what + " has sizes, strides and offset that do not fit");
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) return;
  const std::int64_t item = dtype_bits(entry.dtype) / 8;
  const std::string reach = what + ": what it reaches";
  std::int64_t last = offset, elements = 1;
  bool contiguous = true;
  for (std::size_t d = entry.shape.size(); d-- > 0;) {
    const std::int64_t side = entry.shape[d];
    last = checked_add(last, checked_mul(side - 1, strides[d], reach.c_str()), reach.c_str());
    contiguous = contiguous && (side == 1 || strides[d] == elements);
    elements *= side;  // tensor_bytes() has checked the product
  }
  const std::int64_t end = checked_mul(checked_add(last, 1, reach.c_str()), item, reach.c_str());
  if (static_cast<std::uint64_t>(end) > storage.size())
    throw Error(Errc::kCorrupt, what + " reaches beyond its storage of " +
                                    std::to_string(storage.size()) + " bytes");
  const auto first = static_cast<std::size_t>(offset * item);
  const auto size = static_cast<std::size_t>(elements * item);
  if (contiguous) {
    entry.bytes = storage.subspan(first, size);
    return;
  }
  const std::span<std::byte> copy = own(size, what);
  gather_strided(storage.data() + first, entry.shape, strides, item, copy.data());
  entry.bytes = copy;
  entry.order = order_of(entry.shape, strides);
  if (!entry.order.empty()) entry.stored = storage.subspan(first, size);
}

}  // namespace gbcompress
