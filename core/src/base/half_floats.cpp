#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/half_floats.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "base/float16.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// By integers: instructions for it make quiet numbers of signaling ones.
void FloatsOfHalves(const std::byte* halves, std::size_t count, float* floats) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> dh;
  const auto rebase = hn::Set(di, 112 << 23);
  const auto unit = hn::Set(d, 0x1p-24f);
  const std::size_t lanes = hn::Lanes(d);
  const auto* const aligned = reinterpret_cast<const std::uint16_t*>(halves);
  const bool fits = reinterpret_cast<std::uintptr_t>(halves) % alignof(std::uint16_t) == 0;
  std::size_t i = 0;
  for (; fits && i + lanes <= count; i += lanes) {
    const auto half = hn::BitCast(di, hn::PromoteTo(du, hn::LoadU(dh, aligned + i)));
    const auto size = hn::And(half, hn::Set(di, 0x7FFF));
    const auto more = hn::IfThenElseZero(hn::Gt(size, hn::Set(di, 0x7BFF)), rebase);
    const auto normal = hn::Add(hn::ShiftLeft<13>(size), hn::Add(rebase, more));
    const auto small = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, size), unit));
    const auto number = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x400)), small, normal);
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(di, 0x8000)));
    hn::StoreU(hn::BitCast(d, hn::Or(number, sign)), d, floats + i);
  }
  for (; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof half);
    floats[i] = half_to_float(half);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(FloatsOfHalves);

void floats_of_halves(std::span<const std::byte> halves, float* floats) {
  HWY_DYNAMIC_DISPATCH(FloatsOfHalves)(halves.data(), halves.size() / 2, floats);
}

}  // namespace gbcompress
#endif
