#include "artifact/sections/packing.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "artifact/sections/blocks.h"
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
/// Counts of symbols have 32 bits.
constexpr std::size_t kMostBlockBytes = std::size_t{1} << 30;
/// Unless a sample of them is repetitive: so many pieces of so many bytes, or all.
constexpr std::size_t kTriedPieces = 4, kTriedBytes = std::size_t{1} << 16;

using Context = std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)>;

Bytes compress_in(ZSTD_CCtx* context, std::span<const std::byte> raw, int level) {
  if (!context) throw Error(Errc::kFailure, "zstd could not start");
  check(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level), "zstd");
  check(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0), "zstd");
  check(ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 1), "zstd");
  Bytes packed(ZSTD_compressBound(raw.size()));
  const std::size_t n =
      ZSTD_compress2(context, packed.data(), packed.size(), raw.data(), raw.size());
  check(n, "zstd compression");
  packed.resize(n);
  return packed;
}

Bytes compress(std::span<const std::byte> raw, int level) {
  // One for each thread: a new one takes longer than a small tensor. Large inputs take much memory,
  // which is not kept.
  constexpr std::size_t kSmall = std::size_t{1} << 18;
  static thread_local const Context small(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (raw.size() <= kSmall) return compress_in(small.get(), raw, level);
  return compress_in(Context(ZSTD_createCCtx(), ZSTD_freeCCtx).get(), raw, level);
}

/// Levels of zstd: the slow one where the quick one comes near the best of the others, since small
/// files are worth every byte; beyond some megabytes it takes minutes. Of more than few bytes, only
/// what takes least by the quick one is packed by a slow one, by the slowest where zstd suits
/// elements of several bytes clearly better than the others do. Text becomes half a percent smaller
/// by the slowest, in twice the time.
constexpr int kQuick = 9, kSlow = 16, kSlowest = 19;
constexpr std::size_t kFew = std::size_t{1} << 16, kThorough = std::size_t{4} << 20;

/// Whether more than half of the elements equal earlier ones, as in tables of sines. Halves are
/// left out: their values are few in any tensor.
bool are_repeated(std::span<const std::byte> raw, std::size_t size) {
  if (size < 4) return false;
  constexpr std::size_t kPlaces = std::size_t{1} << 20;
  std::vector<bool> seen(kPlaces);
  std::size_t repeated = 0;
  for (std::size_t at = 0; at < raw.size(); at += size) {
    std::uint64_t element = 0;
    std::memcpy(&element, raw.data() + at, std::min(size, sizeof element));
    auto place = seen[(element * 0x9E3779B97F4A7C15ULL) >> 44];
    if (place) ++repeated;
    place = true;
  }
  return repeated > raw.size() / size / 2;
}

bool is_repetitive(std::span<const std::byte> raw, std::size_t size) {
  const bool whole = raw.size() <= kTriedPieces * (kTriedBytes + size);
  const Bytes pieces = whole ? Bytes(raw.begin(), raw.end())
                             : pieces_of(raw, size, kTriedPieces, kTriedBytes / size);
  return are_repeated(pieces, size) || compress(pieces, 1).size() < pieces.size() / 2;
}

bool are_blocks(std::span<const std::byte> raw, std::uint32_t type) {
  const gguf::BlockLayout* const layout = gguf::find_block_layout(type);
  return layout && raw.size() % layout->bytes == 0 && raw.size() <= kMostBlockBytes;
}

/// Whether zstd makes a sample of many blocks smaller than its share of `packed` bytes.
bool is_smaller_by_zstd(std::span<const std::byte> raw, std::uint32_t type, std::size_t packed) {
  const std::size_t block = gguf::find_block_layout(type)->bytes, count = kTriedBytes / block;
  const Bytes sample = raw.size() <= kTriedPieces * count * block
                           ? Bytes(raw.begin(), raw.end())
                           : pieces_of(raw, block, kTriedPieces, count);
  return static_cast<double>(compress(sample, 1).size()) / static_cast<double>(sample.size()) <
         static_cast<double>(packed) / static_cast<double>(raw.size());
}

/// to[plane * n + element] = from[element * size + plane]
Bytes shuffle(std::span<const std::byte> from, std::size_t size) {
  Bytes to(from.size());
  const std::size_t n = from.size() / size;
  for (std::size_t plane = 0; plane < size; ++plane)
    for (std::size_t e = 0; e < n; ++e) to[plane * n + e] = from[e * size + plane];
  return to;
}

}  // namespace

Bytes pieces_of(std::span<const std::byte> raw, std::size_t element_bytes, std::size_t pieces,
                std::size_t count) {
  Bytes sample;
  const std::size_t apart = (raw.size() / element_bytes - count) / (pieces - 1);
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto piece = raw.subspan(i * apart * element_bytes, count * element_bytes);
    sample.insert(sample.end(), piece.begin(), piece.end());
  }
  return sample;
}

Bytes compress_fast(std::span<const std::byte> raw) { return compress(raw, 1); }

bool are_planes(std::span<const std::byte> raw, std::int64_t element_bytes) {
  return raw.size() > kManyFloats && !is_repetitive(raw, static_cast<std::size_t>(element_bytes));
}

std::shared_ptr<const PlanesWriter> planes_of(std::span<const std::byte> raw,
                                              std::int64_t element_bytes) {
  if (raw.size() < kLargeTensor || !are_planes(raw, element_bytes)) return nullptr;
  auto planes = std::make_shared<const PlanesWriter>(raw, static_cast<std::size_t>(element_bytes));
  return planes->pays() ? planes : nullptr;
}

bool is_noise(std::span<const std::byte> raw, std::int64_t element_bytes) {
  const auto size = static_cast<std::size_t>(element_bytes);
  constexpr std::size_t kNoisePieces = 16;
  const std::size_t count = kTriedBytes / size;
  if (raw.size() < 2 * kNoisePieces * kTriedBytes) return false;
  const Bytes sample = pieces_of(raw, size, kNoisePieces, count);
  // Less than a thousandth is not worth the time.
  const std::size_t least = sample.size() - sample.size() / 1024;
  return compress(sample, 1).size() > least && compress(shuffle(sample, size), 1).size() > least;
}

std::pair<Bytes, Packing> pack(std::span<const std::byte> raw, std::int64_t element_bytes,
                               bool floats, PackedBlocks blocks) {
  std::pair<Bytes, Packing> best{{}, Packing::kRaw};
  std::size_t least = raw.size();
  const auto keep_smaller = [&](Bytes packed, Packing packing) {
    if (packed.size() >= least) return;
    least = packed.size();
    best = {std::move(packed), packing};
  };
  const auto smallest = [&] {
    if (best.second == Packing::kRaw) best.first.assign(raw.begin(), raw.end());
    return std::move(best);
  };
  if (raw.empty()) return best;
  const auto size = static_cast<std::size_t>(element_bytes);
  if (are_blocks(raw, blocks.type)) {
    keep_smaller(pack_blocks(raw, blocks.type, blocks.threads), Packing::kBlocks);
    if (raw.size() > kManyFloats && !is_smaller_by_zstd(raw, blocks.type, least)) return smallest();
  }
  if (floats) keep_smaller(pack_planes(raw, size), Packing::kPlanes);
  if (floats && are_planes(raw, element_bytes)) return smallest();
  const auto slowly = [&](Bytes quick, std::span<const std::byte> bytes, Packing packing) {
    const bool few = raw.size() <= kFew, near = quick.size() < least + (few ? least / 8 : 0);
    const bool clearly = few || (size > 1 && quick.size() < least - least / 4);
    keep_smaller(near && bytes.size() <= kThorough ? compress(bytes, clearly ? kSlowest : kSlow)
                                                   : std::move(quick),
                 packing);
  };
  Bytes quick = compress(raw, kQuick);
  if (size == 1) {
    slowly(std::move(quick), raw, Packing::kZstd);
    return smallest();
  }
  const Bytes shuffled = shuffle(raw, size);
  Bytes quick_shuffled = compress(shuffled, kQuick);
  const bool as_is = quick.size() <= quick_shuffled.size(), few = raw.size() <= kFew;
  if (few || !as_is) slowly(std::move(quick_shuffled), shuffled, Packing::kShuffledZstd);
  if (few || as_is) slowly(std::move(quick), raw, Packing::kZstd);
  return smallest();
}

std::size_t estimate_packed(std::span<const std::byte> raw, std::int64_t element_bytes, bool floats,
                            std::uint32_t type) {
  std::size_t least = raw.size();
  if (raw.empty()) return 0;
  const auto size = static_cast<std::size_t>(element_bytes);
  if (are_blocks(raw, type)) least = std::min(least, pack_blocks(raw, type, 1).size());
  if (floats) least = std::min(least, pack_planes(raw, size).size());
  if (size > 1) least = std::min(least, compress_fast(shuffle(raw, size)).size());
  return std::min(least, compress_fast(raw).size());
}

}  // namespace gbcompress
