#include "quantize/palette.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "artifact/sections/elements.h"
#include "gbcompress/artifact.h"

namespace gbcompress {
namespace {

constexpr std::size_t kSample = 4096;
/// Elements of a sample for each distinct one, at least.
constexpr std::size_t kSampleShare = 8;

std::uint64_t element_at(const TensorEntry& tensor, std::size_t index, std::size_t size) {
  std::uint64_t element = 0;
  std::memcpy(&element, tensor.bytes.data() + index * size, size);
  return element;
}

/// Counts of distinct elements, by open addressing.
class Counts {
 public:
  /// Slots: a power of two.
  static constexpr std::size_t kSlots = 4 * kMaxPalette;

  /// The place of an element; kSlots where it is new and there are kMaxPalette others.
  std::size_t place(std::uint64_t element) {
    std::size_t at = (element * 0x9E3779B97F4A7C15U >> 40) % kSlots;
    while (counts_[at] > 0 && elements_[at] != element) at = (at + 1) % kSlots;
    if (counts_[at] == 0) {
      if (used_ == static_cast<std::size_t>(kMaxPalette)) return kSlots;
      ++used_;
      elements_[at] = element;
    }
    return at;
  }
  bool add(std::uint64_t element) {
    const std::size_t at = place(element);
    if (at == kSlots) return false;
    ++counts_[at];
    return true;
  }
  std::size_t used() const { return used_; }
  std::vector<PaletteEntry> entries() const {
    std::vector<PaletteEntry> found;
    for (std::size_t i = 0; i < kSlots; ++i)
      if (counts_[i] > 0) found.push_back({elements_[i], 0, counts_[i]});
    return found;
  }

 private:
  std::vector<std::uint64_t> elements_ = std::vector<std::uint64_t>(kSlots);
  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(kSlots);
  std::size_t used_ = 0;
};

/// Orders elements by value, and NaN by its bits.
std::uint64_t ordered(std::uint64_t element, int bits) {
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return element & sign ? ~element & (sign | (sign - 1)) : element | sign;
}

double value_of(std::uint64_t element, DType dtype) {
  if (dtype == DType::kF64) {
    double value = 0;
    std::memcpy(&value, &element, sizeof value);
    return value;
  }
  float value = 0;
  const auto bytes = std::as_bytes(std::span(&element, 1));
  floats_of(bytes.first(static_cast<std::size_t>(dtype_bits(dtype)) / 8), dtype, {&value, 1});
  return static_cast<double>(value);
}

bool is_few_in_sample(const TensorEntry& tensor, std::size_t count, std::size_t size) {
  if (count <= kSample) return true;
  Counts counts;
  const std::size_t pieces = 64, piece = kSample / pieces;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t first = (count - piece) / (pieces - 1) * i;
    for (std::size_t n = first; n < first + piece; ++n) counts.add(element_at(tensor, n, size));
  }
  return kSampleShare * counts.used() <= kSample;
}

}  // namespace

std::vector<PaletteEntry> palette_of(const TensorEntry& tensor) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  const std::size_t count = tensor.bytes.size() / size;
  if (!is_few_in_sample(tensor, count, size)) return {};
  Counts counts;
  for (std::size_t i = 0; i < count; ++i)
    if (!counts.add(element_at(tensor, i, size))) return {};
  std::vector<PaletteEntry> entries = counts.entries();
  const int bits = dtype_bits(tensor.dtype);
  std::ranges::sort(entries, [&](const PaletteEntry& a, const PaletteEntry& b) {
    return ordered(a.element, bits) < ordered(b.element, bits);
  });
  for (PaletteEntry& entry : entries) entry.value = value_of(entry.element, tensor.dtype);
  return entries;
}

void merge_zeros(std::vector<PaletteEntry>& entries) {
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    if (entries[i].value != 0 || entries[i + 1].value != 0) continue;
    entries[i + 1].count += entries[i].count;
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

std::vector<std::int32_t> palette_indices(std::span<const std::uint64_t> palette,
                                          const TensorEntry& tensor, int offset) {
  const int bits = dtype_bits(tensor.dtype);
  const auto size = static_cast<std::size_t>(bits) / 8;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  std::vector<std::int32_t> indices(tensor.bytes.size() / size);
  std::uint64_t last = 0;
  std::int32_t last_index = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint64_t element = element_at(tensor, i, size);
    if (last_index == std::numeric_limits<std::int32_t>::min() || element != last) {
      const auto find = [&](std::uint64_t wanted) {
        return std::ranges::lower_bound(palette, ordered(wanted, bits), {},
                                        [&](std::uint64_t e) { return ordered(e, bits); });
      };
      auto at = find(element);
      if (at == palette.end() || *at != element) at = find(element ^ sign);
      last = element;
      last_index = static_cast<std::int32_t>(at - palette.begin()) - offset;
    }
    indices[i] = last_index;
  }
  return indices;
}

bool is_same_but_zeros(std::span<const std::byte> bytes, const TensorEntry& tensor) {
  if (std::ranges::equal(bytes, tensor.bytes)) return true;
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  const std::uint64_t sign = std::uint64_t{1} << (dtype_bits(tensor.dtype) - 1);
  if (bytes.size() != tensor.bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    std::uint64_t one = 0, other = 0;
    std::memcpy(&one, bytes.data() + i, size);
    std::memcpy(&other, tensor.bytes.data() + i, size);
    if (one != other && ((one | other) & ~sign) != 0) return false;
  }
  return true;
}

}  // namespace gbcompress
