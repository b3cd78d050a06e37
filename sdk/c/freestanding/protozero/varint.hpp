#pragma once
// In place of protozero's header, which throws exceptions of the C++ run time.

#include "gbcompress/error.h"

namespace protozero {

using exception = gbcompress::Error;
inline constexpr std::size_t max_varint_length = 10;

inline std::uint64_t decode_varint(const char** at, const char* end) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (*at == end) break;
    const auto byte = static_cast<unsigned char>(*(*at)++);
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  throw gbcompress::Error(gbcompress::Errc::kTruncated, "a number ends early");
}

inline int write_varint(char* to, std::uint64_t value) {
  int size = 1;
  for (; value >= 128; value >>= 7, ++size) *to++ = static_cast<char>(value | 128);
  *to = static_cast<char>(value);
  return size;
}

inline int length_of_varint(std::uint64_t value) {
  int size = 1;
  for (; value >= 128; value >>= 7) ++size;
  return size;
}

}  // namespace protozero
