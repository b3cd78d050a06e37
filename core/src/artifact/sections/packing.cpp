#include "artifact/sections/packing.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "artifact/sections/planes.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

void check(std::size_t result, const char* what) {
  if (ZSTD_isError(result))
    throw Error(Errc::kFailure, std::string(what) + " failed: " + ZSTD_getErrorName(result));
}

/// Floats beyond so many bytes are packed as planes without trying the others.
constexpr std::size_t kManyFloats = std::size_t{1} << 16;
/// Unless zstd makes less than half of their first bytes.
constexpr std::size_t kFirstBytes = std::size_t{1} << 18;

Bytes compress(std::span<const std::byte> raw, int level) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     ZSTD_freeCCtx);
  if (!context) throw Error(Errc::kFailure, "zstd could not start");
  check(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level), "zstd");
  check(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 0), "zstd");
  check(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 1), "zstd");
  Bytes packed(ZSTD_compressBound(raw.size()));
  const std::size_t n =
      ZSTD_compress2(context.get(), packed.data(), packed.size(), raw.data(), raw.size());
  check(n, "zstd compression");
  packed.resize(n);
  return packed;
}

/// Small files are worth every byte; beyond some megabytes the highest levels take minutes.
int thorough(std::size_t size) { return size <= (std::size_t{4} << 20) ? 19 : 9; }

bool is_repetitive(std::span<const std::byte> raw) {
  const auto first = raw.first(std::min(raw.size(), kFirstBytes));
  return compress(first, 1).size() < first.size() / 2;
}

/// to[plane * n + element] = from[element * size + plane], or back.
Bytes shuffle(std::span<const std::byte> from, std::size_t size, bool back) {
  Bytes to(from.size());
  const std::size_t n = from.size() / size;
  for (std::size_t plane = 0; plane < size; ++plane)
    for (std::size_t e = 0; e < n; ++e) {
      const std::size_t planar = plane * n + e, natural = e * size + plane;
      if (back)
        to[natural] = from[planar];
      else
        to[planar] = from[natural];
    }
  return to;
}

}  // namespace

Bytes compress_fast(std::span<const std::byte> raw) { return compress(raw, 1); }

std::pair<Bytes, Packing> pack(std::span<const std::byte> raw, std::int64_t element_bytes,
                               bool floats) {
  std::pair<Bytes, Packing> best{Bytes(raw.begin(), raw.end()), Packing::kRaw};
  const auto keep_smaller = [&](Bytes packed, Packing packing) {
    if (packed.size() < best.first.size()) best = {std::move(packed), packing};
  };
  if (raw.empty()) return best;
  const auto size = static_cast<std::size_t>(element_bytes);
  if (floats) keep_smaller(pack_planes(raw, size), Packing::kPlanes);
  if (floats && raw.size() > kManyFloats && !is_repetitive(raw)) return best;
  keep_smaller(compress(raw, thorough(raw.size())), Packing::kZstd);
  if (size > 1)
    keep_smaller(compress(shuffle(raw, size, false), thorough(raw.size())), Packing::kShuffledZstd);
  return best;
}

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
  if (packing == Packing::kPlanes)
    return unpack_planes(stored, static_cast<std::size_t>(raw_bytes),
                         static_cast<std::size_t>(element_bytes), label);
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
    return shuffle(raw, static_cast<std::size_t>(element_bytes), true);
  return raw;
}

}  // namespace gbcompress
