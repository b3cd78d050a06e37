#pragma once
/// Arithmetic on untrusted numbers: overflow is an error, never a wrap.

#include <cstdint>
#include <span>

#include "gbcompress/error.h"

namespace gbcompress {

/// a * b for non-negative numbers. @throws Error(kLimit) naming `what`
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result))
    throw Error(Errc::kLimit, std::string(what) + " is too large");
  return result;
}

/// a + b for non-negative numbers. @throws Error(kLimit) naming `what`
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &result))
    throw Error(Errc::kLimit, std::string(what) + " is too large");
  return result;
}

/// Product of a shape; 1 for a scalar. @throws Error(kLimit)
inline std::int64_t checked_elements(std::span<const std::int64_t> shape, const char* what) {
  std::int64_t n = 1;
  for (std::int64_t side : shape) n = checked_mul(n, side, what);
  return n;
}

}  // namespace gbcompress
