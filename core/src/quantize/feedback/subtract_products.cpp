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

using Doubles = hn::CappedTag<double, kSquare>;

// So few sums that they stay in registers. Not NegMulAdd(): it rounds once where there is one.

/// Four rows and two vectors of columns.
void FourRows(double* const* to, const double* left, const double* right, std::int64_t depth) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s00 = hn::LoadU(d, to[0]), s01 = hn::LoadU(d, to[0] + lanes);
  auto s10 = hn::LoadU(d, to[1]), s11 = hn::LoadU(d, to[1] + lanes);
  auto s20 = hn::LoadU(d, to[2]), s21 = hn::LoadU(d, to[2] + lanes);
  auto s30 = hn::LoadU(d, to[3]), s31 = hn::LoadU(d, to[3] + lanes);
  HWY_UNROLL(4)
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
  hn::StoreU(s00, d, to[0]), hn::StoreU(s01, d, to[0] + lanes);
  hn::StoreU(s10, d, to[1]), hn::StoreU(s11, d, to[1] + lanes);
  hn::StoreU(s20, d, to[2]), hn::StoreU(s21, d, to[2] + lanes);
  hn::StoreU(s30, d, to[3]), hn::StoreU(s31, d, to[3] + lanes);
}

/// Eight rows, whose columns are one vector.
void EightRows(double* const* to, const double* left, const double* right, std::int64_t depth) {
  const Doubles d;
  auto s0 = hn::LoadU(d, to[0]), s1 = hn::LoadU(d, to[1]);
  auto s2 = hn::LoadU(d, to[2]), s3 = hn::LoadU(d, to[3]);
  auto s4 = hn::LoadU(d, to[4]), s5 = hn::LoadU(d, to[5]);
  auto s6 = hn::LoadU(d, to[6]), s7 = hn::LoadU(d, to[7]);
  HWY_UNROLL(4)
  for (std::int64_t k = 0; k < depth; ++k, left += kSquare, right += kSquare) {
    const auto r = hn::LoadU(d, right);
    s0 = hn::Sub(s0, hn::Mul(hn::Set(d, left[0]), r));
    s1 = hn::Sub(s1, hn::Mul(hn::Set(d, left[1]), r));
    s2 = hn::Sub(s2, hn::Mul(hn::Set(d, left[2]), r));
    s3 = hn::Sub(s3, hn::Mul(hn::Set(d, left[3]), r));
    s4 = hn::Sub(s4, hn::Mul(hn::Set(d, left[4]), r));
    s5 = hn::Sub(s5, hn::Mul(hn::Set(d, left[5]), r));
    s6 = hn::Sub(s6, hn::Mul(hn::Set(d, left[6]), r));
    s7 = hn::Sub(s7, hn::Mul(hn::Set(d, left[7]), r));
  }
  hn::StoreU(s0, d, to[0]), hn::StoreU(s1, d, to[1]);
  hn::StoreU(s2, d, to[2]), hn::StoreU(s3, d, to[3]);
  hn::StoreU(s4, d, to[4]), hn::StoreU(s5, d, to[5]);
  hn::StoreU(s6, d, to[6]), hn::StoreU(s7, d, to[7]);
}

void SubtractProducts(double* const* to, const double* left, const double* right,
                      std::int64_t depth) {
  static_assert(kSquare == 8);
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(Doubles()));
  if (width > kSquare) return EightRows(to, left, right, depth);
  for (std::int64_t j = 0; j < kSquare; j += width)
    for (std::int64_t i = 0; i < kSquare; i += 4) {
      double* const rows[] = {to[i] + j, to[i + 1] + j, to[i + 2] + j, to[i + 3] + j};
      FourRows(rows, left + i, right + j, depth);
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
