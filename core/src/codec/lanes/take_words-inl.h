// Words for the lanes that need one, for one level of a processor; included once a level.
#if defined(GBC_LANES_TAKE_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_TAKE_WORDS_INL_H_
#undef GBC_LANES_TAKE_WORDS_INL_H_
#else
#define GBC_LANES_TAKE_WORDS_INL_H_
#endif

#include <hwy/highway.h>
#include <bit>

#include "codec/lanes/placements.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Word = hn::CappedTag<std::uint32_t, 16>;
using Whole = hn::RebindToSigned<Word>;
using Real = hn::RebindToFloat<Word>;
constexpr std::size_t kWidth = hn::MaxLanes(Word());

/// The n-th lane of a mask takes the n-th word.
struct Taken {
  hn::Vec<Word> words;
  std::size_t count;
};

HWY_INLINE Taken TakeWords(hn::Mask<Word> due, const std::byte* from) {
  const Word d;
#if HWY_TARGET == HWY_AVX3
  const auto mask = static_cast<__mmask16>(due.raw);
  const __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const auto words = hn::Vec<Word>{_mm512_maskz_expand_epi32(mask, _mm512_cvtepu16_epi32(next))};
  return {words, static_cast<std::size_t>(std::popcount(static_cast<unsigned>(mask)))};
#elif HWY_TARGET == HWY_WASM
  // Highway has no instruction of WebAssembly for either (1.0.3).
  const auto mask = static_cast<std::size_t>(wasm_i32x4_bitmask(due.raw));
  const auto words =
      wasm_i8x16_swizzle(wasm_v128_load(from), wasm_v128_load(kFour.at[mask].data()));
  return {hn::Vec<Word>{words}, static_cast<std::size_t>(std::popcount(mask))};
#else
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, due, bits);
  const std::size_t mask = bits[0];
  const auto count = static_cast<std::size_t>(std::popcount(mask));
#if HWY_TARGET == HWY_AVX2
  const hn::Rebind<std::uint16_t, Word> narrow;
  const auto next = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  const hn::Rebind<std::uint8_t, Word> places_of;
  const auto places =
      hn::IndicesFromVec(d, hn::PromoteTo(d, hn::LoadU(places_of, kEight.at[mask].data())));
  return {hn::TableLookupLanes(hn::PromoteTo(d, next), places), count};
#else
  static_assert(kWidth == 4);
  const hn::Repartition<std::uint8_t, Word> bytes;
  const auto next = hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from));
  const auto places = hn::Load(bytes, kFour.at[mask].data());
  return {hn::BitCast(d, hn::TableLookupBytesOr0(next, places)), count};
#endif
#endif
}

/// Of states: those that need a word.
HWY_INLINE hn::Mask<Word> IsLow(hn::Vec<Word> state) {
#if HWY_TARGET == HWY_AVX3
  return hn::Lt(state, hn::Set(Word(), 0x10000));
#else  // comparisons are of signed numbers
  return hn::Eq(hn::ShiftRight<16>(state), hn::Zero(Word()));
#endif
}
/// States, those that are due with the next word below them. @param word  where that is; moved on
HWY_INLINE hn::Vec<Word> Refill(hn::Vec<Word> state, hn::Mask<Word> due, const std::byte*& word) {
  const Taken taken = TakeWords(due, word);
  word += 2 * taken.count;
#if HWY_TARGET == HWY_AVX3
  return hn::Or(hn::Vec<Word>{_mm512_mask_slli_epi32(state.raw, due.raw, state.raw, 16)},
                taken.words);
#else
  return hn::IfThenElse(due, hn::Or(hn::ShiftLeft<16>(state), taken.words), state);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
