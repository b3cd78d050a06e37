#include "codec/lanes/encode_steps.h"

// States lie in arrays of vectors, which vectors of unknown length cannot.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/lanes/encode_steps.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include "codec/lanes/encode_steps-inl.h"
// clang-format on

#if HWY_ONCE
namespace gbcompress::codec::lanes {
namespace {
HWY_EXPORT(PushSteps);
HWY_EXPORT(FindSymbols);
HWY_EXPORT(TakeParts);
HWY_EXPORT(AddMagnitudes);
}  // namespace

std::uint16_t* push_steps(const std::uint32_t* parts, const std::uint32_t* lows, std::size_t steps,
                          std::uint32_t* states, std::uint16_t* next) {
  return HWY_DYNAMIC_DISPATCH(PushSteps)(parts, lows, steps, states, next);
}
void find_symbols(const LineInput& line, std::uint16_t* places, std::uint32_t* lows) {
  HWY_DYNAMIC_DISPATCH(FindSymbols)(line, places, lows);
}
std::uint64_t add_magnitudes(const std::int32_t* values, std::size_t count, std::uint64_t* sums) {
  return HWY_DYNAMIC_DISPATCH(AddMagnitudes)(values, count, sums);
}
bool take_parts(const std::uint16_t* places, std::size_t count, const std::uint32_t* table,
                std::uint32_t* parts) {
  return HWY_DYNAMIC_DISPATCH(TakeParts)(places, count, table, parts);
}

}  // namespace gbcompress::codec::lanes
#endif  // HWY_ONCE
