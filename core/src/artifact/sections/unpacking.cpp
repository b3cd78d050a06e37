#include <zstd.h>

#include "artifact/sections/packing.h"
#include "artifact/sections/planes.h"
#include "base/optional_parts.h"
#include "gbcompress/error.h"

namespace gbcompress {

namespace {

using Bytes = std::vector<std::byte>;

/// to[element * size + plane] = from[plane * n + element]
Bytes unshuffle(std::span<const std::byte> from, std::size_t size) {
  Bytes to(from.size());
  const std::size_t n = from.size() / size;
  for (std::size_t plane = 0; plane < size; ++plane)
    for (std::size_t e = 0; e < n; ++e) to[e * size + plane] = from[plane * n + e];
  return to;
}

}  // namespace

Bytes unpack(std::span<const std::byte> stored, Packing packing, std::int64_t raw_bytes,
             std::int64_t element_bytes, const std::string& label) {
  if (packing == Packing::kRaw) {
    if (static_cast<std::int64_t>(stored.size()) != raw_bytes)
      throw Error(Errc::kCorrupt, label + " has another size than the file declares");
    return {stored.begin(), stored.end()};
  }
  const auto corrupt = [&](const char* why) -> Error {
    return {Errc::kCorrupt, label + " is not the zstd data that the file declares (" + why + ")"};
  };
  // No block of zstd grows by more than this: a lie about the size ends here, whatever the limits.
  if (raw_bytes / 32'768 > static_cast<std::int64_t>(stored.size()))
    throw corrupt("it cannot be that large");
  if (packing == Packing::kPlanes) {
    optional_parts::need(optional_parts::kPlanes, "planes of floats");
    return unpack_planes(stored, static_cast<std::size_t>(raw_bytes),
                         static_cast<std::size_t>(element_bytes), label);
  }
  // One frame, of the size that was checked, and nothing behind it.
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) !=
      static_cast<unsigned long long>(raw_bytes))
    throw corrupt("it declares another size");
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size())
    throw corrupt("it is not one whole frame");
  Bytes raw(static_cast<std::size_t>(raw_bytes));
  const std::size_t n = ZSTD_decompress(raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(n)) throw corrupt(ZSTD_getErrorName(n));
  if (n != raw.size()) throw corrupt("it ends early");
  if (packing == Packing::kShuffledZstd)
    return unshuffle(raw, static_cast<std::size_t>(element_bytes));
  return raw;
}

}  // namespace gbcompress
