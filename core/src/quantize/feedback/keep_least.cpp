#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/feedback/keep_least.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <limits>

#include "quantize/feedback/keep_least.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

std::size_t KeepLeast(std::int64_t* keys, std::size_t count, std::size_t most) {
  const hn::CappedTag<std::int64_t, 8> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t end = (count + lanes - 1) / lanes * lanes;
  for (std::size_t i = count; i < end; ++i) keys[i] = std::numeric_limits<std::int64_t>::max();
  HWY_ALIGN std::int64_t ranks[kMostKeys];  // less than 0: so many keys are less
  for (std::size_t i = 0; i < end; i += lanes) {
    const auto these = hn::LoadU(d, keys + i);
    auto rank = hn::Zero(d);
    for (std::size_t k = 0; k < count; ++k)
      rank = hn::Add(rank, hn::VecFromMask(d, hn::Lt(hn::Set(d, keys[k]), these)));
    hn::StoreU(rank, d, ranks + i);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    keys[kept] = keys[i];
    kept += -ranks[i] < static_cast<std::int64_t>(most);
  }
  return kept;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(KeepLeast);

std::size_t keep_least(std::int64_t* keys, std::size_t count, std::size_t most) {
  return HWY_DYNAMIC_DISPATCH(KeepLeast)(keys, count, most);
}

}  // namespace gbcompress
#endif
