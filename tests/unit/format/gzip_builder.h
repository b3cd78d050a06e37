#pragma once
/// Gzip members for tests.

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace gbcompress::testing {

inline std::string gzip(const std::string& content, std::size_t repeats = 1) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string packed, step(1 << 16, '\0');
  for (std::size_t i = 0; i < repeats; ++i) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(step.data());
      stream.avail_out = static_cast<uInt>(step.size());
      deflate(&stream, i + 1 == repeats ? Z_FINISH : Z_NO_FLUSH);
      packed.append(step, 0, step.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return packed;
}

}  // namespace gbcompress::testing
