// The decoder of a block for one level of a processor; included once a level.
#if defined(GBC_LANES_DECODE_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_DECODE_BLOCK_INL_H_
#undef GBC_LANES_DECODE_BLOCK_INL_H_
#else
#define GBC_LANES_DECODE_BLOCK_INL_H_
#endif

#include <hwy/highway.h>
#include <algorithm>
#include <type_traits>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/escape.h"
#include "codec/lanes/scalar_steps.h"

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE2
#define GBC_LANES_ONE_BY_ONE 1
#else
#define GBC_LANES_ONE_BY_ONE 0
#include "codec/lanes/vector_steps-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if GBC_LANES_ONE_BY_ONE
using Lanes = ScalarLanes;
#endif

// A form says whether a grid is dependent: std::true_type or std::false_type where that is known
// when the code is compiled, bool in libgbz, which has one copy of it.

template <typename Form, typename Out>
bool DecodeValues(Form dependent, const BlockInput& block, StripeCursor& cursor, Out* out) {
  Lanes lanes(cursor);
  Escapes escapes{cursor.escape, cursor.escapes_end};
  const std::byte* const words_end = cursor.words_end;
  const std::uint32_t* const entries = block.entries;
  StepInput step;
  for (std::int64_t i = 0; i < block.values;) {
    const std::int64_t line = i / block.width, first = line * block.width;
    const std::int64_t end = std::min(block.values, first + block.width);
    const int cls = block.lines[line];
    const std::int32_t base = cls * ((dependent ? 2 : 1) << kTableBits);
    const float scale =
        block.row_scales ? block.row_scales[(block.first + i) / block.row_size] : block.scale;
    const bool one_row = !block.row_scales || block.row_size == block.width;
    for (; one_row && i + kLaneCount <= end && cls + block.highest[i - first] < kTables;
         i += kLaneCount) {
      if (!line_step(dependent, lanes, escapes, entries, block.bases + (i - first), base, scale,
                     out + i))
        return false;
      if (HWY_UNLIKELY(lanes.word > words_end)) return false;
    }
    if (i >= end) continue;
    const std::int64_t count = std::min(kLaneCount, block.values - i);
#if !GBC_LANES_ONE_BY_ONE
    if (one_row && block.columns && i + kLaneCount <= end)
      PrepareLine(dependent, block.lines[line], block.columns + (i - first), scale, step);
    else
#endif
      prepare_step(block, i, count, step);
    if (!any_step(dependent, lanes, escapes, entries, step, count, out + i)) return false;
    if (lanes.word > words_end) return false;
    i += count;
  }
  lanes.store(escapes, cursor);
  return true;
}

template <typename Out>
void ScaleUnitsTo(const float* units, std::int64_t count, float scale, Out* out) {
  std::int64_t i = 0;
#if !GBC_LANES_ONE_BY_ONE
  constexpr auto kStep = static_cast<std::int64_t>(kWidth);
  const auto factor = hn::Set(Real(), scale);
  for (; i + kStep <= count; i += kStep)
    StoreNumbers(out + i, hn::Mul(hn::LoadU(Real(), units + i), factor));
#endif
  for (; i < count; ++i) put_number(out + i, units[i] * scale);
}
void ScaleUnits(const float* units, std::int64_t count, float scale, float* out) {
  ScaleUnitsTo(units, count, scale, out);
}

#ifdef GBC_FREESTANDING
bool DecodeFloats(const BlockInput& block, StripeCursor& cursor, float* out) {
  return DecodeValues(block.dependent, block, cursor, out);
}
#else
void ScaleToBfloats(const float* units, std::int64_t count, float scale, Bfloat16* out) {
  ScaleUnitsTo(units, count, scale, out);
}
void ScaleToHalves(const float* units, std::int64_t count, float scale, Float16* out) {
  ScaleUnitsTo(units, count, scale, out);
}

template <typename Out>
bool DecodeBlockTo(const BlockInput& block, StripeCursor& cursor, Out* out) {
  return block.dependent ? DecodeValues(std::true_type(), block, cursor, out)
                         : DecodeValues(std::false_type(), block, cursor, out);
}

bool DecodeIntegers(const BlockInput& block, StripeCursor& cursor, std::int32_t* out) {
  return DecodeBlockTo(block, cursor, out);
}
bool DecodeFloats(const BlockInput& block, StripeCursor& cursor, float* out) {
  return DecodeBlockTo(block, cursor, out);
}
bool DecodeBfloats(const BlockInput& block, StripeCursor& cursor, Bfloat16* out) {
  return DecodeBlockTo(block, cursor, out);
}
bool DecodeHalves(const BlockInput& block, StripeCursor& cursor, Float16* out) {
  return DecodeBlockTo(block, cursor, out);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#undef GBC_LANES_ONE_BY_ONE

#endif  // toggled once a level
