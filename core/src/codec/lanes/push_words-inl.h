// States of an encoder's lanes, for one level of a processor; included once a level.
#if defined(GBC_LANES_PUSH_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_PUSH_WORDS_INL_H_
#undef GBC_LANES_PUSH_WORDS_INL_H_
#else
#define GBC_LANES_PUSH_WORDS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/lanes/placements.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using CodeTag = hn::CappedTag<std::uint32_t, 16>;
constexpr std::size_t kCodeWidth = hn::MaxLanes(CodeTag());

/// x / width for width in 1 ... 2^12 and a quotient below 2^21: the float's is at most one away.
HWY_INLINE hn::Vec<CodeTag> Quotient(hn::Vec<CodeTag> x, hn::Vec<CodeTag> width) {
  const CodeTag d;
  const hn::RebindToSigned<CodeTag> di;
  const hn::RebindToFloat<CodeTag> df;
  const auto real = [&](auto integer) { return hn::ConvertTo(df, hn::BitCast(di, integer)); };
  const auto low = real(hn::And(x, hn::Set(d, 0xffff)));
  const auto number = hn::Add(hn::Mul(real(hn::ShiftRight<16>(x)), hn::Set(df, 65536.0f)), low);
  // The inverse does not wait for the state.
  const auto about = hn::ConvertTo(di, hn::Mul(number, hn::Div(hn::Set(df, 1.0f), real(width))));
  const auto rest = hn::BitCast(di, hn::Sub(x, hn::Mul(hn::BitCast(d, about), width)));
  const auto wide = hn::BitCast(di, width);
  const auto below = hn::VecFromMask(di, hn::Lt(rest, hn::Zero(di)));
  const auto above = hn::VecFromMask(di, hn::Gt(rest, hn::Sub(wide, hn::Set(di, 1))));
  return hn::BitCast(d, hn::Sub(hn::Add(about, below), above));  // masks are -1
}

/// The order of lanes in Pushed(): as they are, or in reverse, so that what Compress() puts first
/// is the last word.
struct Reversal {
  HWY_INLINE hn::Vec<CodeTag> operator()(hn::Vec<CodeTag> x) const {
#if HWY_TARGET == HWY_AVX2
    return x;
#else
    return hn::Reverse(CodeTag(), x);
#endif
  }
};

/// The lanes in which there is no room for more: their low halves go before `next`, the last lane
/// last. Lanes are in the order of a Reversal.
HWY_INLINE hn::Vec<CodeTag> Pushed(hn::Vec<CodeTag> state, hn::Mask<CodeTag> full,
                                   std::uint16_t*& next) {
  const CodeTag d;
  const hn::Rebind<std::uint16_t, CodeTag> narrow;
#if HWY_TARGET == HWY_AVX2  // GCC 12 copies the table of hn::Compress() whenever it is used
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, full, bits);
  const hn::Rebind<std::uint8_t, CodeTag> places;
  const auto from = hn::PromoteTo(d, hn::LoadU(places, kLastOfEight.at[bits[0]].data()));
  const auto words =
      hn::TableLookupLanes(hn::And(state, hn::Set(d, 0xffff)), hn::IndicesFromVec(d, from));
  hn::StoreU(hn::TruncateTo(narrow, words), narrow, next - kCodeWidth);
  next -= std::popcount(bits[0]);
#else
  const auto words = hn::Compress(hn::And(state, hn::Set(d, 0xffff)), full);
  hn::StoreU(hn::TruncateTo(narrow, hn::Reverse(d, words)), narrow, next - kCodeWidth);
  next -= hn::CountTrue(d, full);
#endif
  return hn::IfThenElse(full, hn::ShiftRight<16>(state), state);
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
