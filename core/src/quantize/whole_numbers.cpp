#include "quantize/whole_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/levels.h"

namespace gbcompress {
namespace {

/// Elements on which the forms are compared; all are coded in the one that wins.
constexpr std::int64_t kCompared = 1 << 18;
/// Larger numbers are no weights.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

template <typename T>
std::vector<std::int64_t> read(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    if constexpr (std::is_unsigned_v<T>)
      numbers.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(value, kLargest)));
    else
      numbers.push_back(std::clamp<std::int64_t>(value, -kLargest, kLargest));
  }
  return numbers;
}

std::vector<std::int64_t> numbers_in(const TensorEntry& tensor) {
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kU8:
      return read<std::uint8_t>(tensor.bytes);
    case DType::kI8:
      return read<std::int8_t>(tensor.bytes);
    case DType::kU16:
      return read<std::uint16_t>(tensor.bytes);
    case DType::kI16:
      return read<std::int16_t>(tensor.bytes);
    case DType::kU32:
      return read<std::uint32_t>(tensor.bytes);
    case DType::kI32:
      return read<std::int32_t>(tensor.bytes);
    case DType::kU64:
      return read<std::uint64_t>(tensor.bytes);
    case DType::kI64:
      return read<std::int64_t>(tensor.bytes);
    default:
      return {};
  }
}

std::vector<std::int64_t> nibbles_in(const TensorEntry& tensor) {
  std::vector<std::int64_t> nibbles;
  nibbles.reserve(2 * tensor.bytes.size());
  for (const std::byte byte : tensor.bytes)
    for (const int shift : {0, 4})
      nibbles.push_back(std::to_integer<std::int64_t>(byte) >> shift & 15);
  return nibbles;
}

/// Around their middle: small integers of either sign are the cheapest.
std::optional<CodedValues> centred(IntegerGrid grid, const std::vector<std::int64_t>& numbers) {
  double sum = 0;
  for (const std::int64_t n : numbers) sum += static_cast<double>(n);
  const double mean = std::nearbyint(sum / static_cast<double>(numbers.size()));
  CodedValues values{.grid = grid};
  values.step = std::fabs(mean) <= kMaxStep ? static_cast<int>(mean) : 0;
  values.integers.reserve(numbers.size());
  for (const std::int64_t n : numbers) {
    const std::int64_t off = n - values.step;
    if (off < -kMaxMagnitude || off > kMaxMagnitude) return {};
    values.integers.push_back(static_cast<std::int32_t>(off));
  }
  return values;
}

enum class Form : std::uint8_t { kAsTheyAre, kWide, kNibbles };

std::optional<CodedValues> in_form(const TensorEntry& tensor, Form form) {
  const bool nibbles = form == Form::kNibbles;
  std::optional<CodedValues> values =
      nibbles ? centred(nibble_grid(tensor.shape, tensor.dtype), nibbles_in(tensor))
              : centred(default_grid(tensor.shape), numbers_in(tensor));
  if (!values) return {};
  values->nibbles = nibbles;
  values->grid.wide = form == Form::kWide;
  return values;
}

/// The first rows of a tensor.
TensorEntry some_rows(const TensorEntry& tensor) {
  TensorEntry some = tensor;
  const IntegerGrid grid = default_grid(tensor.shape);
  if (tensor.shape.size() < 2 || grid.size() <= kCompared) return some;
  some.shape[0] = std::max<std::int64_t>(kCompared / grid.cols, 1);
  some.bytes = tensor.bytes.first(tensor.bytes.size() / static_cast<std::size_t>(grid.rows) *
                                  static_cast<std::size_t>(some.shape[0]));
  return some;
}

}  // namespace

double coded_bytes(const CodedValues& values, CodecProfile profile) {
  IntegerEncoder encoder(profile);
  if (values.levels.used()) encoder.add(level_grid(values.levels, values.grid), values.level_table);
  encoder.add(values.grid, values.integers);
  return encoder.ideal_bits() / 8;
}

std::optional<CodedValues> whole_numbers(const TensorEntry& tensor, CodecProfile profile) {
  if (!is_codable(tensor.dtype) || is_real(tensor.dtype) || tensor.bytes.empty()) return {};
  const bool small = profile == CodecProfile::kSmall;
  const auto codable = [&](const std::optional<CodedValues>& values) {
    return values && (!small || fits_small({&values->grid, 1}));
  };
  std::vector<Form> forms = {Form::kAsTheyAre};
  if (small) forms.push_back(Form::kWide);
  if (has_nibbles(tensor.dtype)) forms.push_back(Form::kNibbles);
  const TensorEntry some = some_rows(tensor);
  std::vector<std::pair<double, Form>> order;
  for (const Form form : forms)
    if (const std::optional<CodedValues> values = in_form(some, form); codable(values))
      order.emplace_back(coded_bytes(*values, profile), form);
  std::sort(order.begin(), order.end());
  for (const auto& [bytes, form] : order)
    if (std::optional<CodedValues> values = in_form(tensor, form); codable(values)) return values;
  return {};
}

}  // namespace gbcompress
