// States lie in arrays of vectors, which vectors of unknown length cannot. Targets that give no
// other instructions to this code would only add to the size of every program.
#ifdef GBC_FREESTANDING  // libgbz: SSE4 takes as much code as the two levels above it together
#define GBC_DISABLED_TOO HWY_SSE4
#else
#define GBC_DISABLED_TOO 0
#endif
#define HWY_DISABLED_TARGETS                                                             \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL | \
   GBC_DISABLED_TOO)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/lanes/decode_block.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include "codec/lanes/decode_block-inl.h"
// clang-format on

#if HWY_ONCE
namespace gbcompress::codec::lanes {
namespace {
HWY_EXPORT(DecodeFloats);
HWY_EXPORT(ScaleUnits);
#ifndef GBC_FREESTANDING
HWY_EXPORT(ScaleToBfloats);
HWY_EXPORT(ScaleToHalves);
HWY_EXPORT(DecodeIntegers);
HWY_EXPORT(DecodeBfloats);
HWY_EXPORT(DecodeHalves);
#endif
}  // namespace

bool decode_block(const BlockInput& block, StripeCursor& cursor, float* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeFloats)(block, cursor, out);
}
void scale_units(const float* units, std::int64_t count, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleUnits)(units, count, scale, out);
}
#ifndef GBC_FREESTANDING
void scale_units(const float* units, std::int64_t count, float scale, Bfloat16* out) {
  HWY_DYNAMIC_DISPATCH(ScaleToBfloats)(units, count, scale, out);
}
void scale_units(const float* units, std::int64_t count, float scale, Float16* out) {
  HWY_DYNAMIC_DISPATCH(ScaleToHalves)(units, count, scale, out);
}
bool decode_block(const BlockInput& block, StripeCursor& cursor, std::int32_t* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeIntegers)(block, cursor, out);
}
bool decode_block(const BlockInput& block, StripeCursor& cursor, Float16* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeHalves)(block, cursor, out);
}
bool decode_block(const BlockInput& block, StripeCursor& cursor, Bfloat16* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeBfloats)(block, cursor, out);
}
#else  // libgbz: by way of units, which are whole numbers of 22 bits
bool decode_block(const BlockInput& block, StripeCursor& cursor, std::int32_t* out) {
  BlockInput units = block;
  units.scale = 1;
  units.row_scales = nullptr;
  std::vector<float> numbers(static_cast<std::size_t>(block.values));
  if (!decode_block(units, cursor, numbers.data())) return false;
  integers_of(numbers, block.dependent, out);
  return true;
}
#endif

}  // namespace gbcompress::codec::lanes
#endif  // HWY_ONCE
