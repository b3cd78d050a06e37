#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/feedback/subtract_products.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include "quantize/feedback/subtract_products.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;

/// Four rows and two vectors of columns: so few sums that they stay in registers. Not NegMulAdd():
/// it rounds once where there is one.
void Strip(double* const* to, const double* left, const double* right, std::int64_t depth) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s00 = hn::LoadU(d, to[0]), s01 = hn::LoadU(d, to[0] + lanes);
  auto s10 = hn::LoadU(d, to[1]), s11 = hn::LoadU(d, to[1] + lanes);
  auto s20 = hn::LoadU(d, to[2]), s21 = hn::LoadU(d, to[2] + lanes);
  auto s30 = hn::LoadU(d, to[3]), s31 = hn::LoadU(d, to[3] + lanes);
  for (std::int64_t k = 0; k < depth; ++k, left += kSquare, right += kSquare) {
    const auto r0 = hn::LoadU(d, right), r1 = hn::LoadU(d, right + lanes);
    const auto l0 = hn::Set(d, left[0]), l1 = hn::Set(d, left[1]);
    s00 = hn::Sub(s00, hn::Mul(l0, r0));
    s01 = hn::Sub(s01, hn::Mul(l0, r1));
    s10 = hn::Sub(s10, hn::Mul(l1, r0));
    s11 = hn::Sub(s11, hn::Mul(l1, r1));
    const auto l2 = hn::Set(d, left[2]), l3 = hn::Set(d, left[3]);
    s20 = hn::Sub(s20, hn::Mul(l2, r0));
    s21 = hn::Sub(s21, hn::Mul(l2, r1));
    s30 = hn::Sub(s30, hn::Mul(l3, r0));
    s31 = hn::Sub(s31, hn::Mul(l3, r1));
  }
  hn::StoreU(s00, d, to[0]);
  hn::StoreU(s01, d, to[0] + lanes);
  hn::StoreU(s10, d, to[1]);
  hn::StoreU(s11, d, to[1] + lanes);
  hn::StoreU(s20, d, to[2]);
  hn::StoreU(s21, d, to[2] + lanes);
  hn::StoreU(s30, d, to[3]);
  hn::StoreU(s31, d, to[3] + lanes);
}

void SubtractProducts(double* const* to, const double* left, const double* right,
                      std::int64_t depth) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(Doubles()));
  for (std::int64_t j = 0; j < kSquare; j += width)
    for (std::int64_t i = 0; i < kSquare; i += 4) {
      double* const rows[] = {to[i] + j, to[i + 1] + j, to[i + 2] + j, to[i + 3] + j};
      Strip(rows, left + i, right + j, depth);
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(SubtractProducts);

void subtract_products(double* const* to, const double* left, const double* right,
                       std::int64_t depth) {
  HWY_DYNAMIC_DISPATCH(SubtractProducts)(to, left, right, depth);
}

}  // namespace gbcompress
#endif
