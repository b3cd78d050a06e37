#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calibrate/add_scaled.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include "calibrate/add_scaled.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;

// Not MulAdd(): it rounds once where there is one.
void AddScaled(double* to, const double* from, double factor, std::int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Mul(factors, hn::LoadU(d, from + i))), d, to + i);
  for (; i < count; ++i) to[i] += factor * from[i];
}

void AddOuter(double* to, const double* factors, const double* of_rows, std::int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t b = 0; b < kOuterWidth; b += lanes) {
    const auto rows = hn::LoadU(d, of_rows + b);
    double* place = to + b;
    for (std::int64_t i = 0; i < count; ++i, place += kOuterWidth)
      hn::StoreU(hn::Add(hn::LoadU(d, place), hn::Mul(hn::Set(d, factors[i]), rows)), d, place);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(AddScaled);
HWY_EXPORT(AddOuter);

void add_scaled(double* to, const double* from, double factor, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(to, from, factor, count);
}

void add_outer(double* to, const double* factors, const double* of_rows, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddOuter)(to, factors, of_rows, count);
}

}  // namespace gbcompress
#endif
