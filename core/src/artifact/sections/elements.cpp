#include "artifact/sections/elements.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "artifact/sections/levels.h"
#include "base/float16.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

template <typename T, typename Values, typename F>
void put(const Values& values, std::byte* bytes, F&& to) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    const T value = to(values[n]);
    std::memcpy(bytes + n * sizeof(T), &value, sizeof value);
  }
}

template <typename T, typename F>
void read(std::span<const std::byte> bytes, std::span<float> floats, F&& from) {
  for (std::size_t n = 0; n < floats.size(); ++n) {
    T value;
    std::memcpy(&value, bytes.data() + n * sizeof(T), sizeof value);
    floats[n] = from(value);
  }
}

std::vector<std::byte> from_nibbles(const CodedValues& values) {
  std::vector<std::byte> bytes(values.integers.size() / 2);
  for (std::size_t n = 0; n < values.integers.size(); ++n) {
    const std::int64_t nibble = std::int64_t{values.integers[n]} + values.step;
    if (nibble < 0 || nibble > 15)
      throw Error(Errc::kCorrupt, "a tensor has a nibble of more than four bits");
    bytes[n / 2] |= static_cast<std::byte>(nibble << (n % 2 * 4));
  }
  return bytes;
}

/// @tparam T  of as many bytes as the type, whose sign makes no difference
template <typename T>
std::vector<std::byte> whole_as(const CodedValues& values, DType dtype) {
  const auto [least, largest] = whole_range(dtype);
  std::vector<std::byte> bytes(values.integers.size() * sizeof(T));
  put<T>(values.integers, bytes.data(),
         [&, least = least, largest = largest](std::int32_t integer) {
           const std::int64_t number = std::int64_t{integer} + values.step;
           if (number < least || number > largest)
             throw Error(Errc::kCorrupt, "a tensor has a value that its type cannot hold");
           return static_cast<T>(number);
         });
  return bytes;
}

std::vector<std::byte> whole(const CodedValues& values, DType dtype) {
  switch (dtype_bits(dtype)) {
    case 8:
      return whole_as<std::uint8_t>(values, dtype);
    case 16:
      return whole_as<std::uint16_t>(values, dtype);
    case 32:
      return whole_as<std::uint32_t>(values, dtype);
    default:
      return whole_as<std::uint64_t>(values, dtype);
  }
}

}  // namespace

void put_elements(std::span<const float> values, DType dtype, std::span<std::byte> bytes) {
  switch (dtype) {
    case DType::kF16:
      return put<std::uint16_t>(values, bytes.data(), float_to_half);
    case DType::kBF16:
      return put<std::uint16_t>(values, bytes.data(), float_to_bfloat);
    case DType::kF64:
      return put<double>(values, bytes.data(), [](float v) { return double{v}; });
    default:
      if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
  }
}

std::vector<std::byte> elements_of(std::span<const float> values, DType dtype) {
  const int bits = dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64
                       ? dtype_bits(dtype)
                       : dtype_bits(DType::kF32);
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bits / 8));
  put_elements(values, dtype, bytes);
  return bytes;
}

void floats_of(std::span<const std::byte> bytes, DType dtype, std::span<float> floats) {
  switch (dtype) {
    case DType::kF16:
#ifdef GBC_FREESTANDING
      return read<std::uint16_t>(bytes, floats, half_to_float);
#else
      return floats_of_halves(bytes.first(2 * floats.size()), floats.data());
#endif
    case DType::kBF16:
      return read<std::uint16_t>(bytes, floats, [](std::uint16_t v) {
        const std::uint32_t bits = std::uint32_t{v} << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
      });
    case DType::kF64:
      return read<double>(bytes, floats, [](double v) { return static_cast<float>(v); });
    default:
      if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size_bytes());
  }
}

std::pair<std::int64_t, std::int64_t> whole_range(DType dtype) noexcept {
  if (dtype == DType::kBool) return {0, 1};
  const int bits = dtype_bits(dtype);
  const bool with_sign =
      dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  const std::int64_t largest = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                                          : (std::int64_t{1} << (with_sign ? bits - 1 : bits)) - 1;
  return {with_sign ? -largest - 1 : 0, largest};
}

std::pair<std::int64_t, std::int64_t> integer_range(DType dtype, bool nibbles) noexcept {
  return nibbles ? std::pair<std::int64_t, std::int64_t>{0, 15} : whole_range(dtype);
}

bool is_codable(DType dtype) noexcept { return is_real(dtype) || dtype <= DType::kI64; }

std::vector<std::byte> coded_elements(const CodedValues& values, DType dtype) {
  if (values.nibbles) return from_nibbles(values);
  if (values.levels.used() && values.levels.dtype == dtype) return level_elements(values);
  return is_real(dtype) ? elements_of(coded_floats(values), dtype) : whole(values, dtype);
}

}  // namespace gbcompress
