#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "artifact/integers/fixed_width_products.cpp"
// Sums lie in arrays of vectors, which vectors of unknown length cannot.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstdint>

#include "artifact/integers/fixed_width.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Codes = hn::CappedTag<std::uint8_t, 16>;
using Sum = hn::CappedTag<float, 16>;
constexpr std::size_t kUnits = FixedWidthMatrix::kBlock;

/// Sixteen units of a block, those of group kGroup.
template <int kBits, int kGroup>
HWY_INLINE void UnpackGroup(const std::uint8_t* block, std::int8_t* to) {
  const Codes d;
  const auto lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < 16; i += lanes) {
    auto codes = hn::LoadU(d, block + kGroup % 4 * 16 + i);
    codes = kGroup < 4 ? hn::And(codes, hn::Set(d, 15)) : hn::ShiftRight<4>(codes);
    if constexpr (kBits == 5) {
      const auto high = hn::ShiftRight<kGroup>(hn::LoadU(d, block + 64 + i));
      codes = hn::Or(codes, hn::ShiftLeft<4>(hn::And(high, hn::Set(d, 1))));
    }
    if constexpr (kBits == 6) {
      const auto high =
          hn::ShiftRight<kGroup % 4 * 2>(hn::LoadU(d, block + 64 + kGroup / 4 * 16 + i));
      codes = hn::Or(codes, hn::ShiftLeft<4>(hn::And(high, hn::Set(d, 3))));
    }
    const hn::RebindToSigned<Codes> whole;
    const auto half = hn::Set(whole, static_cast<std::int8_t>(1 << (kBits - 1)));
    hn::StoreU(hn::Sub(hn::BitCast(whole, codes), half), whole, to + kGroup * 16 + i);
  }
}

template <int kBits>
HWY_INLINE void UnpackBlock(const std::uint8_t* block, std::int8_t* to) {
  UnpackGroup<kBits, 0>(block, to), UnpackGroup<kBits, 1>(block, to);
  UnpackGroup<kBits, 2>(block, to), UnpackGroup<kBits, 3>(block, to);
  UnpackGroup<kBits, 4>(block, to), UnpackGroup<kBits, 5>(block, to);
  UnpackGroup<kBits, 6>(block, to), UnpackGroup<kBits, 7>(block, to);
}

/// Units from memory, as numbers.
HWY_INLINE hn::Vec<Sum> Numbers(const std::int8_t* units) {
  const Sum d;
  const hn::Rebind<std::int8_t, Sum> narrow;
  const hn::Rebind<std::int32_t, Sum> wide;
  return hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, units)));
}

template <int kBits, std::size_t kTokens>
void MultiplyRows(const FixedWidthMatrix& matrix, std::int64_t first, std::int64_t last,
                  const float* x, std::int64_t stride, float* to) {
  const Sum d;
  const std::size_t lanes = hn::Lanes(d);
  // Two sums of each token where there are few, so that additions need not wait for each other.
  constexpr std::size_t kSums = kTokens == 1 ? 4 : kTokens == 2 ? 2 : 1;
  const auto blocks = static_cast<std::size_t>(matrix.blocks());
  [[maybe_unused]] alignas(64) std::int8_t units[kUnits];
  for (std::int64_t r = first; r < last; ++r) {
    const std::uint8_t* const row = matrix.row(r);
    const std::int8_t* from = units;
    hn::Vec<Sum> sums[kTokens][kSums];
    for (auto& token : sums)
      for (auto& sum : token) sum = hn::Zero(d);
    for (std::size_t b = 0; b < blocks; ++b) {
      if constexpr (kBits == 8)
        from = reinterpret_cast<const std::int8_t*>(row + b * kUnits);
      else
        UnpackBlock<kBits>(row + b * (kUnits / 8) * kBits, units);
      for (std::size_t i = 0; i < kUnits; i += kSums * lanes)
        for (std::size_t s = 0; s < kSums; ++s) {
          const auto numbers = Numbers(from + i + s * lanes);
          const float* const at = x + b * kUnits + i + s * lanes;
          for (std::size_t t = 0; t < kTokens; ++t)
            sums[t][s] = hn::MulAdd(
                numbers, hn::LoadU(d, at + t * static_cast<std::size_t>(stride)), sums[t][s]);
        }
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t s = 1; s < kSums; ++s) sums[t][0] = hn::Add(sums[t][0], sums[t][s]);
      const float* const token = x + t * static_cast<std::size_t>(stride);
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[t][0]));
      for (const FixedWidthMatrix::Rest& rest : matrix.rests(r))
        sum += static_cast<float>(rest.units) * token[rest.column];
      to[t * static_cast<std::size_t>(matrix.rows()) + static_cast<std::size_t>(r)] =
          sum * matrix.scale(r);
    }
  }
}

template <int kBits>
void MultiplyTokens(const FixedWidthMatrix& matrix, std::int64_t first, std::int64_t last,
                    const float* x, std::int64_t tokens, float* to) {
  const std::int64_t stride = matrix.blocks() * FixedWidthMatrix::kBlock;
  while (tokens > 0) {
    const std::int64_t count = tokens >= 4 ? 4 : tokens >= 2 ? 2 : 1;
    if (count == 4)
      MultiplyRows<kBits, 4>(matrix, first, last, x, stride, to);
    else if (count == 2)
      MultiplyRows<kBits, 2>(matrix, first, last, x, stride, to);
    else
      MultiplyRows<kBits, 1>(matrix, first, last, x, stride, to);
    x += count * stride;
    to += count * matrix.rows();
    tokens -= count;
  }
}

void MultiplyFixedWidth(const FixedWidthMatrix& matrix, std::int64_t first, std::int64_t last,
                        const float* x, std::int64_t tokens, float* to) {
  if (matrix.bits() == 4) return MultiplyTokens<4>(matrix, first, last, x, tokens, to);
  if (matrix.bits() == 5) return MultiplyTokens<5>(matrix, first, last, x, tokens, to);
  if (matrix.bits() == 6) return MultiplyTokens<6>(matrix, first, last, x, tokens, to);
  MultiplyTokens<8>(matrix, first, last, x, tokens, to);
}

template <int kBits>
void UnpackRow(const FixedWidthMatrix& matrix, std::int64_t row, float* to) {
  const Sum d;
  [[maybe_unused]] alignas(64) std::int8_t units[kUnits];
  for (std::size_t b = 0; b < static_cast<std::size_t>(matrix.blocks()); ++b, to += kUnits) {
    const std::uint8_t* const block = matrix.row(row) + b * (kUnits / 8) * kBits;
    const std::int8_t* from = units;
    if constexpr (kBits == 8)
      from = reinterpret_cast<const std::int8_t*>(block);
    else
      UnpackBlock<kBits>(block, units);
    for (std::size_t i = 0; i < kUnits; i += hn::Lanes(d)) hn::StoreU(Numbers(from + i), d, to + i);
  }
}

void UnpackFixedWidth(const FixedWidthMatrix& matrix, std::int64_t row, float* to) {
  if (matrix.bits() == 4) return UnpackRow<4>(matrix, row, to);
  if (matrix.bits() == 5) return UnpackRow<5>(matrix, row, to);
  if (matrix.bits() == 6) return UnpackRow<6>(matrix, row, to);
  UnpackRow<8>(matrix, row, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(MultiplyFixedWidth);
HWY_EXPORT(UnpackFixedWidth);

void multiply_fixed_width(const FixedWidthMatrix& matrix, std::int64_t first, std::int64_t last,
                          const float* x, std::int64_t tokens, float* to) {
  HWY_DYNAMIC_DISPATCH(MultiplyFixedWidth)(matrix, first, last, x, tokens, to);
}

void unpack_fixed_width(const FixedWidthMatrix& matrix, std::int64_t row, float* to) {
  HWY_DYNAMIC_DISPATCH(UnpackFixedWidth)(matrix, row, to);
}

}  // namespace gbcompress
#endif
