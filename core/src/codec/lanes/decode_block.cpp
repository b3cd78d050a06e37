// States lie in arrays of vectors, which vectors of unknown length cannot. Targets that give no
// other instructions to this code would only add to the size of every program.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/lanes/decode_block.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include "codec/lanes/decode_block-inl.h"
// clang-format on

#if HWY_ONCE
namespace gbcompress::codec::lanes {
namespace {
HWY_EXPORT(DecodeIntegers);
HWY_EXPORT(DecodeFloats);
HWY_EXPORT(DecodeBfloats);
}  // namespace

bool decode_block(const BlockInput& block, StripeCursor& cursor, std::int32_t* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeIntegers)(block, cursor, out);
}
bool decode_block(const BlockInput& block, StripeCursor& cursor, float* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeFloats)(block, cursor, out);
}
bool decode_block(const BlockInput& block, StripeCursor& cursor, Bfloat16* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeBfloats)(block, cursor, out);
}

}  // namespace gbcompress::codec::lanes
#endif  // HWY_ONCE
