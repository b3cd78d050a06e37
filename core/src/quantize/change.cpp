#include "quantize/change.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "artifact/sections/elements.h"

namespace gbcompress {
namespace {

constexpr std::size_t kBlock = 4096;
using Block = std::array<double, kBlock>;

std::size_t elements(const TensorEntry& tensor) {
  return tensor.bytes.size() / (static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8);
}

void read_block(const TensorEntry& tensor, std::span<const std::byte> bytes, std::size_t first,
                std::span<double> values) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  const auto own = bytes.subspan(first * size, values.size() * size);
  if (tensor.dtype == DType::kF64) {
    std::memcpy(values.data(), own.data(), own.size());
    return;
  }
  std::array<float, kBlock> floats;
  floats_of(own, tensor.dtype, std::span(floats).first(values.size()));
  std::copy_n(floats.begin(), values.size(), values.begin());
}

}  // namespace

const TensorEntry* entry_before(const BaseModel* base, const TensorEntry& tensor) noexcept {
  const TensorEntry* before = base ? base->find(tensor.name) : nullptr;
  return before && before->dtype == tensor.dtype && before->shape == tensor.shape ? before
                                                                                  : nullptr;
}

bool is_finite(const TensorEntry& tensor) {
  Block values;
  const std::size_t count = elements(tensor);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const auto block = std::span(values).first(std::min(kBlock, count - first));
    read_block(tensor, tensor.bytes, first, block);
    if (!std::all_of(block.begin(), block.end(), [](double v) { return std::isfinite(v); }))
      return false;
  }
  return true;
}

ChangeSums change_sums(const TensorEntry& source, const TensorEntry& before,
                       std::span<const std::byte> stored) {
  ChangeSums sums;
  const std::size_t count = elements(source);
  Block wanted, had, kept;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    read_block(source, source.bytes, first, std::span(wanted).first(n));
    read_block(source, before.bytes, first, std::span(had).first(n));
    read_block(source, stored, first, std::span(kept).first(n));
    for (std::size_t i = 0; i < n; ++i) {
      const double off = kept[i] == wanted[i] ? 0 : kept[i] - wanted[i];
      const double moved = wanted[i] - had[i];
      sums.error += off * off;
      sums.change += moved * moved;
    }
  }
  return sums;
}

std::vector<std::byte> on_base(const CodedValues& values, const TensorEntry& before) {
  std::vector<float> numbers = coded_floats(values);
  std::vector<float> base(numbers.size());
  floats_of(before.bytes, before.dtype, base);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += base[i];
  return elements_of(numbers, before.dtype);
}

}  // namespace gbcompress
