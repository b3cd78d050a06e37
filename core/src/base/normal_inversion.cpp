#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/normal_inversion.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "base/normal_inversion.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Mul() and Add() everywhere, not MulAdd(): it rounds once where there is one.
template <typename V, std::size_t N>
V Polynomial(V x, const float (&coefficients)[N]) {
  const hn::DFromV<V> d;
  V sum = hn::Set(d, coefficients[0]);
  for (std::size_t i = 1; i < N; ++i) sum = hn::Add(hn::Mul(sum, x), hn::Set(d, coefficients[i]));
  return sum;
}

/// Natural logarithm of numbers from 2^-126 to 1. (Coefficients of logf in Moshier's Cephes.)
template <typename V>
V Log(V x) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di;
  // x = m 2^e with m from sqrt(1/2) to sqrt(2)
  constexpr std::int32_t kHalfRoot = 0x3F3504F3;
  const auto bits = hn::Sub(hn::BitCast(di, x), hn::Set(di, kHalfRoot));
  const auto e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  const auto m =
      hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), hn::Set(di, kHalfRoot)));
  const auto y = hn::Sub(m, hn::Set(d, 1.0f)), square = hn::Mul(y, y);
  constexpr float kLog[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                            -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                            2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  auto rest = hn::Mul(hn::Mul(square, y), Polynomial(y, kLog));
  rest = hn::Add(rest, hn::Mul(e, hn::Set(d, -2.12194440e-4f)));
  rest = hn::Sub(rest, hn::Mul(square, hn::Set(d, 0.5f)));
  return hn::Add(hn::Add(y, rest), hn::Mul(e, hn::Set(d, 0.693359375f)));
}

/// Of uniform words, by the inverse of the error function. (M. Giles, "Approximating the erfinv
/// function", GPU Computing Gems, 2011, table 1.)
template <typename V32>
auto Quantile(V32 words) {
  const hn::DFromV<V32> du;
  const hn::RebindToSigned<decltype(du)> di;
  const hn::RebindToFloat<decltype(du)> d;
  // The middle of one of 2^24 equal parts of (-1, 1), an odd number over 2^24.
  const auto part = hn::BitCast(di, hn::ShiftRight<8>(words));
  const auto odd = hn::Sub(hn::Add(part, part), hn::Set(di, (1 << 24) - 1));
  const auto x = hn::Mul(hn::ConvertTo(d, odd), hn::Set(d, 0x1p-24f));
  const auto one = hn::Set(d, 1.0f);
  const auto w = hn::Neg(Log(hn::Mul(hn::Sub(one, x), hn::Add(one, x))));
  constexpr float kMiddle[] = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                               -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                               -0.00417768164f,  0.246640727f,    1.50140941f};
  constexpr float kTail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f,
                             -0.00367342844f,  0.00573950773f,  -0.0076224613f,
                             0.00943887047f,   1.00167406f,     2.83297682f};
  const auto middle = Polynomial(hn::Sub(w, hn::Set(d, 2.5f)), kMiddle);
  const auto tail = Polynomial(hn::Sub(hn::Sqrt(hn::Max(w, hn::Zero(d))), hn::Set(d, 3.0f)), kTail);
  const auto factor = hn::IfThenElse(hn::Lt(w, hn::Set(d, 5.0f)), middle, tail);
  return hn::Mul(hn::Mul(factor, x), hn::Set(d, 1.41421356f));
}

void Quantiles(const std::uint32_t* words, float* out, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> all;
  const hn::CappedTag<std::uint32_t, 1> one;
  const hn::RebindToFloat<decltype(all)> all_floats;
  const hn::RebindToFloat<decltype(one)> one_float;
  const std::size_t lanes = hn::Lanes(all);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(Quantile(hn::LoadU(all, words + i)), all_floats, out + i);
  for (; i < count; ++i) hn::StoreU(Quantile(hn::LoadU(one, words + i)), one_float, out + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(Quantiles);

void fill_normal_by_inversion(const RandomStream& stream, std::uint64_t first,
                              std::span<float> out) {
  constexpr std::size_t kAtOnce = 1024;
  std::uint32_t words[kAtOnce];
  for (std::size_t i = 0; i < out.size(); i += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, out.size() - i);
    stream.fill_bits({words, count}, first + i);
    HWY_DYNAMIC_DISPATCH(Quantiles)(words, out.data() + i, count);
  }
}

}  // namespace gbcompress
#endif
