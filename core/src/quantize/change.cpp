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

/// Whether every element has a finite exponent, that is, not all of its bits set.
template <typename T>
bool have_finite_exponents(std::span<const std::byte> bytes, T exponent) {
  std::size_t others = 0;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T bits;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    others += (bits & exponent) == exponent;
  }
  return others == 0;
}

}  // namespace

const TensorEntry* entry_before(const BaseModel* base, const TensorEntry& tensor) noexcept {
  const TensorEntry* before = base ? base->find(tensor.name) : nullptr;
  return before && before->dtype == tensor.dtype && before->shape == tensor.shape ? before
                                                                                  : nullptr;
}

bool is_finite(const TensorEntry& tensor) {
  switch (tensor.dtype) {
    case DType::kF16:
      return have_finite_exponents<std::uint16_t>(tensor.bytes, 0x7c00);
    case DType::kBF16:
      return have_finite_exponents<std::uint16_t>(tensor.bytes, 0x7f80);
    case DType::kF32:
      return have_finite_exponents<std::uint32_t>(tensor.bytes, 0x7f80'0000);
    default:
      return have_finite_exponents<std::uint64_t>(tensor.bytes, 0x7ff0'0000'0000'0000);
  }
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
