#ifdef GBC_FREESTANDING  // libgbz: small before fast
#define HWY_COMPILE_ONLY_STATIC
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/delta/blocks.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <bit>
#include <cstring>
#include <type_traits>

#include "codec/delta/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::delta {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// The bits of a block, put together from comparisons of its elements. Stored as bytes and read
/// once: words that are read right after a part of them was stored wait for the store.
struct Bits {
  alignas(8) std::array<std::uint8_t, kBlock / 8> bytes{};

  /// @param first  element of the comparison's first lane
  template <typename D, typename Mask>
  HWY_INLINE void Put(D d, Mask mask, std::size_t first) {
    if (hn::Lanes(d) >= 8) {
      hn::StoreMaskBits(d, mask, bytes.data() + first / 8);
      return;
    }
    std::uint8_t part[8] = {};
    hn::StoreMaskBits(d, mask, part);
    bytes[first / 8] = static_cast<std::uint8_t>(bytes[first / 8] | part[0] << first % 8);
  }
  HWY_INLINE std::uint64_t Get() const {
    std::uint64_t bits;
    std::memcpy(&bits, bytes.data(), sizeof bits);
    return bits;
  }
};

/// The bits of a block. @param mask_at  the comparison of the lanes from an element on
template <typename S, typename MaskAt>
HWY_INLINE std::uint64_t BlockBits(const MaskAt& mask_at) {
  // At most 64 lanes, and the whole of a block is a multiple of them.
  const hn::CappedTag<S, kBlock> d;
  const std::size_t lanes = hn::Lanes(d);
#if HWY_TARGET == HWY_AVX2
  // Highway takes every other bit of the bytes' signs by an instruction that takes hundreds of
  // cycles on some processors.
  if constexpr (sizeof(S) == 2) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < kBlock; i += 2 * lanes) {
      const __m256i bytes = _mm256_packs_epi16(hn::VecFromMask(d, mask_at(i)).raw,
                                               hn::VecFromMask(d, mask_at(i + lanes)).raw);
      const int part = _mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xD8));
      bits |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(part)) << i;
    }
    return bits;
  }
#endif
  Bits bits;
  for (std::size_t i = 0; i < kBlock; i += lanes) bits.Put(d, mask_at(i), i);
  return bits.Get();
}

template <typename S>
void ClassifyAs(const std::byte* elements, std::span<const std::uint64_t> limits,
                std::span<BlockClasses> blocks) {
  const hn::CappedTag<S, kBlock> d;
  const auto without_sign = hn::Set(d, hwy::LimitsMax<S>());
  const auto* from = reinterpret_cast<const S*>(elements);
  for (BlockClasses& block : blocks) {
    std::uint64_t rest = ~std::uint64_t{0};
    for (std::size_t k = 0; k < limits.size(); ++k) {
      const auto least = hn::Set(d, static_cast<S>(limits[k] - 1));
      const std::uint64_t above = BlockBits<S>([&](std::size_t i) HWY_ATTR {
        return hn::Gt(hn::And(hn::LoadU(d, from + i), without_sign), least);
      });
      block.masks[k] = rest & ~above;
      block.counts[k] = static_cast<std::uint8_t>(std::popcount(block.masks[k]));
      rest = above;
    }
    block.masks[limits.size()] = rest;
    block.counts[limits.size()] = static_cast<std::uint8_t>(std::popcount(rest));
    from += kBlock;
  }
}

template <typename S>
void CompareAs(const std::byte* a, const std::byte* b, std::span<std::uint64_t> masks) {
  const hn::CappedTag<S, kBlock> d;
  const auto* first = reinterpret_cast<const S*>(a);
  const auto* second = reinterpret_cast<const S*>(b);
  for (std::uint64_t& mask : masks) {
    mask = BlockBits<S>([&](std::size_t i) HWY_ATTR {
      return hn::Ne(hn::LoadU(d, first + i), hn::LoadU(d, second + i));
    });
    first += kBlock;
    second += kBlock;
  }
}

void Classify(const std::byte* elements, int element_bytes, std::span<const std::uint64_t> limits,
              std::span<BlockClasses> blocks) {
  if (element_bytes == 1) return ClassifyAs<std::int8_t>(elements, limits, blocks);
  if (element_bytes == 2) return ClassifyAs<std::int16_t>(elements, limits, blocks);
  if (element_bytes == 4) return ClassifyAs<std::int32_t>(elements, limits, blocks);
  ClassifyAs<std::int64_t>(elements, limits, blocks);
}

void Compare(const std::byte* a, const std::byte* b, int element_bytes,
             std::span<std::uint64_t> masks) {
  if (element_bytes == 1) return CompareAs<std::int8_t>(a, b, masks);
  if (element_bytes == 2) return CompareAs<std::int16_t>(a, b, masks);
  if (element_bytes == 4) return CompareAs<std::int32_t>(a, b, masks);
  CompareAs<std::int64_t>(a, b, masks);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::delta
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress::codec::delta {
namespace {
#ifndef GBC_FREESTANDING
HWY_EXPORT(Classify);
HWY_EXPORT(Compare);
#define GBC_DISPATCH HWY_DYNAMIC_DISPATCH
#else
#define GBC_DISPATCH HWY_STATIC_DISPATCH
#endif
}  // namespace

void classify(const std::byte* elements, int element_bytes, std::span<const std::uint64_t> limits,
              std::span<BlockClasses> blocks) {
  GBC_DISPATCH(Classify)(elements, element_bytes, limits, blocks);
}

void compare(const std::byte* a, const std::byte* b, int element_bytes,
             std::span<std::uint64_t> masks) {
  GBC_DISPATCH(Compare)(a, b, element_bytes, masks);
}

}  // namespace gbcompress::codec::delta
#endif  // HWY_ONCE
