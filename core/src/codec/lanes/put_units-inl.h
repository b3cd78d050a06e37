// What steps in vectors store, for one level of a processor; included once a level.
#if defined(GBC_LANES_PUT_UNITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_PUT_UNITS_INL_H_
#undef GBC_LANES_PUT_UNITS_INL_H_
#else
#define GBC_LANES_PUT_UNITS_INL_H_
#endif

#include <hwy/highway.h>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/take_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of forms: decode_block-inl.h.

/// Stores what units stand for: integers, or numbers.
template <typename Form>
HWY_INLINE void Put(Form dependent, std::int32_t* out, hn::Vec<Whole> units, hn::Vec<Real>) {
  const Whole d;
  if (dependent) {
    const auto above = hn::VecFromMask(d, hn::Gt(units, hn::Zero(d)));
    const auto odd = hn::And(units, hn::Set(d, 1));
    units = hn::ShiftRight<1>(hn::Add(units, hn::And(above, odd)));
  }
  hn::StoreU(units, d, out);
}
/// Stores numbers as elements.
HWY_INLINE void StoreNumbers(float* out, hn::Vec<Real> numbers) {
  hn::StoreU(numbers, Real(), out);
}
HWY_INLINE void StoreNumbers(Bfloat16* out, hn::Vec<Real> numbers) {
  const Word d;
  const auto bits = hn::BitCast(d, numbers);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff))));
  const hn::Rebind<std::uint16_t, Whole> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(Whole(), rounded)), narrow, &out->bits);
}

#ifndef GBC_FREESTANDING  // which rounds numbers that it has
/// As float_to_half(), of numbers that are not NaN.
HWY_INLINE void StoreNumbers(Float16* out, hn::Vec<Real> number) {
  const Whole d;
  const auto size = hn::BitCast(d, hn::Abs(number));
  const auto sign =
      hn::And(hn::ShiftRight<16>(hn::BitCast(Word(), number)), hn::Set(Word(), 0x8000));
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(d, 1));
  const auto rebased = hn::Sub(size, hn::Set(d, (112 << 23) - 0xfff));
  const auto normal = hn::ShiftRight<13>(hn::Add(rebased, odd));
  // Below 2^-14 adding 0.5 leaves units of 2^-24, rounded, in the lowest bits.
  const auto half = hn::Set(Real(), 0.5f);
  const auto small = hn::Sub(hn::BitCast(d, hn::Add(hn::Abs(number), half)), hn::BitCast(d, half));
  auto bits = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x38800000)), small, normal);
  bits = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x477ff000)), bits, hn::Set(d, 0x7c00));
  const hn::Rebind<std::uint16_t, Whole> narrow;
  const auto whole = hn::Or(bits, hn::BitCast(d, sign));
  hn::StoreU(hn::DemoteTo(narrow, whole), narrow, &out->bits);
}
#endif

template <typename Form, typename Out>
HWY_INLINE void Put(Form, Out* out, hn::Vec<Whole> units, hn::Vec<Real> scale) {
  StoreNumbers(out, hn::Mul(hn::ConvertTo(Real(), units), scale));
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
