#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak_loop.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include "bench/peak_loop.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Two units with a latency of 4 to 5 cycles need 8 to 10 sums under way; 12 and both operands fit
// the 16 registers of AVX2.
constexpr int kSums = 12;

std::int64_t FmaLoop(std::int64_t iterations, float& result) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  // Values that only the caller knows; the sums converge and stay normal numbers.
  const V factor = hn::Set(d, result), term = hn::Set(d, 1 - result);
  V sum[kSums];
  for (int k = 0; k < kSums; ++k) sum[k] = hn::Set(d, static_cast<float>(k));
  for (std::int64_t i = 0; i < iterations; ++i)
    for (int k = 0; k < kSums; ++k) sum[k] = hn::MulAdd(sum[k], factor, term);
  V total = hn::Zero(d);
  for (int k = 0; k < kSums; ++k) total = hn::Add(total, sum[k]);
  result = hn::GetLane(hn::SumOfLanes(d, total));
  return iterations * kSums * static_cast<std::int64_t>(hn::Lanes(d));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(FmaLoop);

std::int64_t fma_loop(std::int64_t iterations, float& result) {
  return HWY_DYNAMIC_DISPATCH(FmaLoop)(iterations, result);
}

}  // namespace gbcompress
#endif  // HWY_ONCE
