#pragma once
/// Elements as ordered integers (docs/reference/exact-deltas.md, "Differences"): neighboring floats
/// are neighboring integers, whatever their sign, and no bit is lost.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "gbcompress/tensors.h"

namespace gbcompress::codec::delta {

struct ElementForm {
  int bytes = 0;          ///< 1, 2, 4 or 8
  int mantissa_bits = 0;  ///< of floats; 0: integers, which have one level
};

/// Nothing for types whose elements have no differences: complex numbers and those below a byte.
inline std::optional<ElementForm> form_of(DType dtype) noexcept {
  const int bits = dtype_bits(dtype);
  switch (dtype) {
    case DType::kBF16:
      return ElementForm{2, 7};
    case DType::kF16:
      return ElementForm{2, 10};
    case DType::kF32:
      return ElementForm{4, 23};
    case DType::kF64:
      return ElementForm{8, 52};
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return ElementForm{1, 2};
    case DType::kF8E4M3:
    case DType::kF8E4M3FNUZ:
      return ElementForm{1, 3};
    case DType::kC64:
      return {};
    default:
      if (bits % 8 != 0) return {};
      return ElementForm{bits / 8, 0};
  }
}

template <typename U>
inline constexpr int kBits = 8 * static_cast<int>(sizeof(U));
template <typename U>
inline constexpr U kSign = static_cast<U>(U{1} << (kBits<U> - 1));

template <typename U>
constexpr U to_ordered(U element, bool floats) noexcept {
  if (!floats) return element;
  return static_cast<U>(element ^ ((element & kSign<U>) ? static_cast<U>(~U{0}) : kSign<U>));
}

template <typename U>
constexpr U from_ordered(U ordered, bool floats) noexcept {
  if (!floats) return ordered;
  return static_cast<U>(ordered ^ ((ordered & kSign<U>) ? kSign<U> : static_cast<U>(~U{0})));
}

/// The exponent of a float, at least 1, or 1.
template <typename U>
constexpr unsigned level_of(U element, int mantissa_bits) noexcept {
  if (mantissa_bits == 0) return 1;
  const auto level =
      static_cast<unsigned>(static_cast<U>(element & static_cast<U>(~kSign<U>)) >> mantissa_bits);
  return level == 0 ? 1 : level;
}

/// How many bytes of U elements have. Where it has more, they lie in its highest bits, and what is
/// below has no meaning.
template <typename U>
struct ElementSize {
  static constexpr int bytes = sizeof(U), unused = 0;
};
/// The same of any element: libgbz has one copy of the loops.
struct AnySize {
  explicit AnySize(int size) : bytes(size), unused(64 - 8 * size) {}
  int bytes, unused;
};

template <typename U>
U load(const std::byte* from) noexcept {
  U value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename U>
void store(std::byte* to, U value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace gbcompress::codec::delta
