#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rate/laplace_rate.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <iterator>

#include "rate/laplace_rate.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLog2E = 1.44269504f;

/// Uniform in [-1/2, 1/2) from a counter: two rounds of multiply and shift, enough for noise.
template <class D, class V>
hn::Vec<D> Noise(D d, V counter) {
  const hn::RebindToUnsigned<D> du;
  auto x = counter;
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(du, 0x7FEB352Du));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(du, 0x846CA68Bu));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  const hn::RebindToSigned<D> di;
  const auto small = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(x)));
  return hn::MulAdd(small, hn::Set(d, 0x1p-24f), hn::Set(d, -0.5f));
}

/// Calls body(first, count) for whole vectors, then for what is left.
template <class D, typename Body>
void ForVectors(D d, std::int64_t n, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, lanes);
  if (i < n) body(i, n - i);
}

template <class D>
hn::Vec<D> LoadUpTo(D d, const float* from, std::int64_t count, float fill) {
  if (count == static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  std::fill(std::begin(values), std::end(values), fill);
  std::copy(from, from + count, values);
  return hn::Load(d, values);
}

template <class D>
void StoreUpTo(hn::Vec<D> v, D d, float* to, std::int64_t count) {
  if (count == static_cast<std::int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, values);
  std::copy(values, values + count, to);
}

template <bool kCountBits>
RateSums Rate(const float* latent, float step, const float* inverse_scale, float weight,
              std::uint32_t key, std::uint32_t first, float* gradient, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto inverse_step = hn::Set(d, 1 / step), half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  const auto per_bit = hn::Set(d, kLog2E), scaled_weight = hn::Set(d, weight / step);
  auto bits = hn::Zero(d), task = hn::Zero(d), rate = hn::Zero(d);
  const auto iota = hn::Iota(d, 0);
  ForVectors(d, n, [&](std::int64_t i, std::int64_t count) {
    const auto l = LoadUpTo(d, latent + i, count, 0);
    const auto k = LoadUpTo(d, inverse_scale + i, count, 1);
    const auto g = LoadUpTo(d, gradient + i, count, 0);
    const auto u = hn::Mul(l, inverse_step);
    const auto counter =
        hn::Mul(hn::Iota(du, first + static_cast<std::uint32_t>(i)), hn::Set(du, 0x9E3779B9u));
    const auto noisy = hn::Add(u, Noise(d, hn::Add(counter, hn::Set(du, key))));
    const auto x = hn::Abs(noisy);
    const auto kx = hn::Mul(k, x), half_k = hn::Mul(half, k);
    const auto e = hn::Exp(d, hn::Neg(half_k));
    const auto outer_slope = hn::Mul(k, per_bit);
    // In the middle: -log2(1 - e cosh(k x)).
    const auto grow = hn::Exp(d, hn::Min(kx, half_k));
    const auto shrink = hn::Div(one, grow);
    const auto cosh = hn::Mul(half, hn::Add(grow, shrink));
    const auto sinh = hn::Mul(half, hn::Sub(grow, shrink));
    const auto p = hn::Max(hn::NegMulAdd(e, cosh, one), hn::Set(d, 1e-9f));
    const auto inner_slope = hn::Div(hn::Mul(hn::Mul(e, sinh), outer_slope), p);
    const auto inside = hn::Lt(x, half);
    const auto slope = hn::CopySign(hn::IfThenElse(inside, inner_slope, outer_slope), noisy);
    if constexpr (kCountBits) {
      // Beyond the middle: k x log2 e - log2 sinh(k / 2).
      const auto sinh_half = hn::Mul(half, hn::Sub(hn::Div(one, e), e));
      const auto outer_bits = hn::Sub(hn::Mul(kx, per_bit), hn::Log2(d, sinh_half));
      const auto b = hn::IfThenElse(inside, hn::Neg(hn::Log2(d, p)), outer_bits);
      const auto valid = hn::Lt(iota, hn::Set(d, static_cast<float>(count)));
      bits = hn::Add(bits, hn::IfThenElseZero(valid, b));
    }
    task = hn::MulAdd(g, hn::Sub(hn::Round(u), u), task);
    rate = hn::MulAdd(slope, u, rate);
    StoreUpTo(hn::MulAdd(slope, scaled_weight, g), d, gradient + i, count);
  });
  const auto sum = [&](auto v) { return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, v))); };
  return {sum(bits),
          sum(task) * static_cast<double>(step) - static_cast<double>(weight) * sum(rate)};
}

RateSums RateWithBits(const float* latent, float step, const float* inverse_scale, float weight,
                      std::uint32_t key, std::uint32_t first, float* gradient, std::int64_t n) {
  return Rate<true>(latent, step, inverse_scale, weight, key, first, gradient, n);
}

RateSums RateAlone(const float* latent, float step, const float* inverse_scale, float weight,
                   std::uint32_t key, std::uint32_t first, float* gradient, std::int64_t n) {
  return Rate<false>(latent, step, inverse_scale, weight, key, first, gradient, n);
}

void RoundTo(const float* latent, float step, float* rounded, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto inverse = hn::Set(d, 1 / step), size = hn::Set(d, step);
  ForVectors(d, n, [&](std::int64_t i, std::int64_t count) {
    const auto u = hn::Mul(LoadUpTo(d, latent + i, count, 0), inverse);
    StoreUpTo(hn::Mul(hn::Round(u), size), d, rounded + i, count);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {
HWY_EXPORT(RateWithBits);
HWY_EXPORT(RateAlone);
HWY_EXPORT(RoundTo);

RateSums laplace_rate(std::span<const float> latent, float step,
                      std::span<const float> inverse_scale, float weight, std::uint32_t key,
                      std::uint32_t first, std::span<float> gradient, bool count_bits) {
  const auto n = static_cast<std::int64_t>(latent.size());
  if (count_bits)
    return HWY_DYNAMIC_DISPATCH(RateWithBits)(latent.data(), step, inverse_scale.data(), weight,
                                              key, first, gradient.data(), n);
  return HWY_DYNAMIC_DISPATCH(RateAlone)(latent.data(), step, inverse_scale.data(), weight, key,
                                         first, gradient.data(), n);
}

void round_to_step(std::span<const float> latent, float step, float* rounded) {
  HWY_DYNAMIC_DISPATCH(RoundTo)
  (latent.data(), step, rounded, static_cast<std::int64_t>(latent.size()));
}

}  // namespace gbcompress
#endif  // HWY_ONCE
