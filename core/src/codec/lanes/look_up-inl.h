// Entries of tables at the places of lanes, for one level of a processor; included once a level.
#if defined(GBC_LANES_LOOK_UP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_LOOK_UP_INL_H_
#undef GBC_LANES_LOOK_UP_INL_H_
#else
#define GBC_LANES_LOOK_UP_INL_H_
#endif

#include <hwy/highway.h>

#include "codec/lanes/take_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The entries at these places.
HWY_INLINE hn::Vec<Word> LookUp(const std::uint32_t* entries, hn::Vec<Whole> at) {
#if HWY_TARGET == HWY_AVX2  // loads one by one are faster than Zen 2's vpgatherdd
  HWY_ALIGN std::int32_t places[kWidth];
  hn::Store(at, Whole(), places);
  asm("" : "+m"(places));  // read from memory: extracted from the vector they take more operations
  const auto entry = [&](int lane) { return static_cast<int>(entries[places[lane]]); };
  return hn::Vec<Word>{_mm256_setr_epi32(entry(0), entry(1), entry(2), entry(3), entry(4), entry(5),
                                         entry(6), entry(7))};
#elif HWY_TARGET == HWY_WASM  // places do not go through memory
  v128_t found = wasm_v128_load32_zero(entries + wasm_i32x4_extract_lane(at.raw, 0));
  found = wasm_v128_load32_lane(entries + wasm_i32x4_extract_lane(at.raw, 1), found, 1);
  found = wasm_v128_load32_lane(entries + wasm_i32x4_extract_lane(at.raw, 2), found, 2);
  found = wasm_v128_load32_lane(entries + wasm_i32x4_extract_lane(at.raw, 3), found, 3);
  return hn::Vec<Word>{found};
#else
  const auto* const from = reinterpret_cast<const std::int32_t*>(entries);
  return hn::BitCast(Word(), hn::GatherIndex(Whole(), from, at));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
