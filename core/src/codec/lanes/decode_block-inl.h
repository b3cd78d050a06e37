// The decoder of a block for one level of a processor; included once a level.
#if defined(GBC_LANES_DECODE_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_DECODE_BLOCK_INL_H_
#undef GBC_LANES_DECODE_BLOCK_INL_H_
#else
#define GBC_LANES_DECODE_BLOCK_INL_H_
#endif

#include <hwy/highway.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/escape.h"
#include "codec/trellis/quantizer_state.h"

// Unrolled, the states of lanes stay in registers; sanitizers would compile that for minutes, and
// WebAssembly is compiled for machines with fewer registers than states.
#if HWY_IS_ASAN || HWY_IS_MSAN || HWY_IS_TSAN || HWY_TARGET == HWY_SCALAR || \
    HWY_TARGET == HWY_EMU128 || defined(__wasm__)
#define GBC_UNROLL
#elif HWY_COMPILER_CLANG
#define GBC_UNROLL _Pragma("clang loop unroll_count(16)")
#else
#define GBC_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Word = hn::CappedTag<std::uint32_t, 16>;
using Whole = hn::RebindToSigned<Word>;
using Real = hn::RebindToFloat<Word>;
constexpr std::size_t kWidth = hn::MaxLanes(Word());
constexpr std::size_t kVectors = static_cast<std::size_t>(kLaneCount) / kWidth;

/// The n-th lane of a mask takes the n-th word.
struct Taken {
  hn::Vec<Word> words;
  std::size_t count;
};

HWY_INLINE Taken TakeWords(hn::Mask<Word> due, const std::byte* from) {
  const Word d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const auto mask = static_cast<__mmask16>(due.raw);
  const __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const auto words = hn::Vec<Word>{_mm512_maskz_expand_epi32(mask, _mm512_cvtepu16_epi32(next))};
  return {words, static_cast<std::size_t>(std::popcount(static_cast<unsigned>(mask)))};
#elif HWY_TARGET == HWY_SCALAR
  std::uint16_t next;
  std::memcpy(&next, from, sizeof next);
  const bool one = !hn::AllFalse(d, due);
  return {hn::Set(d, one ? next : 0u), one ? 1u : 0u};
#else
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, due, bits);
  const std::size_t mask = bits[0];
  const auto count = static_cast<std::size_t>(std::popcount(mask));
#if HWY_TARGET == HWY_AVX2
  const hn::Rebind<std::uint16_t, Word> narrow;
  const auto next = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  const hn::Rebind<std::uint8_t, Word> places_of;
  const auto places =
      hn::IndicesFromVec(d, hn::PromoteTo(d, hn::LoadU(places_of, kEight.at[mask].data())));
  return {hn::TableLookupLanes(hn::PromoteTo(d, next), places), count};
#else
  static_assert(kWidth == 4);
  const hn::Repartition<std::uint8_t, Word> bytes;
  const auto next = hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from));
  const auto places = hn::Load(bytes, kFour.at[mask].data());
  return {hn::BitCast(d, hn::TableLookupBytesOr0(next, places)), count};
#endif
#endif
}

/// States of all lanes, and where words are taken from. Nothing keeps its address, so that it stays
/// in registers.
struct Lanes {
  hn::Vec<Word> states[kVectors], quantizers[kVectors];
  const std::byte* word;
};

// A form says whether a grid is dependent: std::true_type or std::false_type where that is known
// when the code is compiled, bool in libgbz, which has one copy of it.

/// Stores what units stand for: integers, or numbers.
template <typename Form>
HWY_INLINE void Put(Form dependent, std::int32_t* out, hn::Vec<Whole> units, hn::Vec<Real>) {
  const Whole d;
  if (dependent) {
    const auto above = hn::VecFromMask(d, hn::Gt(units, hn::Zero(d)));
    const auto odd = hn::And(units, hn::Set(d, 1));
    units = hn::ShiftRight<1>(hn::Add(units, hn::And(above, odd)));
  }
  hn::StoreU(units, d, out);
}
template <typename Form>
HWY_INLINE void Put(Form, float* out, hn::Vec<Whole> units, hn::Vec<Real> scale) {
  hn::StoreU(hn::Mul(hn::ConvertTo(Real(), units), scale), Real(), out);
}
template <typename Form>
HWY_INLINE void Put(Form, Bfloat16* out, hn::Vec<Whole> units, hn::Vec<Real> scale) {
  const Word d;
  const auto bits = hn::BitCast(d, hn::Mul(hn::ConvertTo(Real(), units), scale));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff))));
  const hn::Rebind<std::uint16_t, Whole> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(Whole(), rounded)), narrow, &out->bits);
}

HWY_INLINE hn::Vec<Word> After(hn::Vec<Word> state, hn::Vec<Word> second, hn::Vec<Word> parity) {
  const Word d;
  const auto one = hn::Set(d, 1);
  const auto with = [&](hn::Vec<Word> bit, std::uint32_t taps) {
    return hn::And(hn::Sub(hn::Zero(d), hn::And(bit, one)), hn::Set(d, taps));
  };
  return hn::Xor(hn::Xor(hn::ShiftRight<1>(state), with(second, QuantizerState::kFeedback)),
                 with(parity, QuantizerState::kParity));
}

/// Takes the next symbols of kWidth lanes. @return their entries
template <bool kPart, typename Form>
HWY_INLINE hn::Vec<Word> TakeEntries(Form dependent, Lanes& lanes, std::size_t j,
                                     const std::uint32_t* entries, hn::Vec<Whole> base,
                                     hn::Mask<Word> on) {
  const Word d;
  const auto low = hn::Set(d, kWholeTable - 1);
  const auto x = lanes.states[j];
  auto at = hn::Add(base, hn::BitCast(Whole(), hn::And(x, low)));
  if (dependent) {
    const auto second = hn::And(lanes.quantizers[j], hn::Set(d, 1));
    at = hn::Add(at, hn::BitCast(Whole(), hn::ShiftLeft<kTableBits>(second)));
  }
  const auto entry =
      hn::BitCast(d, hn::GatherIndex(Whole(), reinterpret_cast<const std::int32_t*>(entries), at));
  const auto width = hn::And(hn::ShiftRight<kTableBits>(entry), low);
  auto y = hn::Add(hn::Mul(width, hn::ShiftRight<kTableBits>(x)), hn::And(entry, low));
  auto due = hn::Eq(hn::ShiftRight<16>(y), hn::Zero(d));
  if (kPart) due = hn::And(due, on);
  const Taken taken = TakeWords(due, lanes.word);
  lanes.word += 2 * taken.count;
  y = hn::IfThenElse(due, hn::Or(hn::ShiftLeft<16>(y), taken.words), y);
  lanes.states[j] = kPart ? hn::IfThenElse(on, y, x) : y;
  return entry;
}

HWY_INLINE hn::Mask<Word> FirstLanes(std::size_t j, std::int64_t count) {
  const auto left = std::clamp<std::int64_t>(count - static_cast<std::int64_t>(j * kWidth), 0,
                                             static_cast<std::int64_t>(kWidth));
  return hn::FirstN(Word(), static_cast<std::size_t>(left));
}

/// Of kWidth lanes that hold escapes: what stands for them, in place of what was put.
template <typename Form, typename Out>
HWY_NOINLINE bool PatchEscapes(Form dependent, Escapes& escapes, hn::Vec<Word> entry,
                               std::size_t count, const float* scales, std::size_t scale_step,
                               Out* out) {
  HWY_ALIGN std::uint32_t entries[kWidth];
  hn::Store(entry, Word(), entries);
  for (std::size_t lane = 0; lane < std::min(count, kWidth); ++lane) {
    if (!is_escape(entries[lane])) continue;
    std::int32_t integer;
    if (!escapes.take(entries[lane], 0, integer)) return false;
    put_value(out + lane, integer, dependent && is_second(entries[lane]), dependent,
              scales[lane * scale_step]);
  }
  return true;
}

/// 64 values of a line without low bits.
template <typename Form, typename Out>
HWY_INLINE bool LineStep(Form dependent, Lanes& lanes, Escapes& escapes,
                         const std::uint32_t* entries, const std::int32_t* columns,
                         hn::Vec<Whole> line, float scale, Out* out) {
  const Word d;
  const Whole di;
  const auto top = hn::Set(di, ((kTables - 1) * (dependent ? 2 : 1)) << kTableBits);
  const auto all = hn::Eq(hn::Zero(d), hn::Zero(d));
  const auto factor = hn::Set(Real(), scale);
  GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j) {
    const auto sum = hn::Add(line, hn::LoadU(di, columns + j * kWidth));
    const auto base = hn::Max(hn::Min(sum, top), hn::Zero(di));
    const auto second = lanes.quantizers[j];
    const auto entry = TakeEntries<false>(dependent, lanes, j, entries, base, all);
    if (dependent) lanes.quantizers[j] = After(second, second, hn::ShiftRight<kParityPlace>(entry));
    const auto value = hn::ShiftRight<kValuePlace>(hn::BitCast(di, entry));
    Put(dependent, out + j * kWidth, value, factor);
    if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Lt(value, hn::Set(di, kLastEscape + 1)))))
      if (!PatchEscapes(dependent, escapes, entry, kWidth, &scale, 0, out + j * kWidth))
        return false;
  }
  return true;
}

#ifndef GBC_FREESTANDING
/// Up to 64 values, each with a base and a scale of its own, without low bits.
template <typename Form, typename Out>
HWY_INLINE bool MixedStep(Form dependent, Lanes& lanes, Escapes& escapes,
                          const std::uint32_t* entries, const StepInput& step, std::int64_t count,
                          Out* out) {
  const Whole di;
  HWY_ALIGN Out part[kLaneCount];
  GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j) {
    const std::size_t i = j * kWidth;
    if (static_cast<std::int64_t>(i) >= count) break;
    const auto on = FirstLanes(j, count);
    const auto second = lanes.quantizers[j];
    const auto entry =
        TakeEntries<true>(dependent, lanes, j, entries, hn::Load(di, step.bases + i), on);
    if (dependent)
      lanes.quantizers[j] =
          hn::IfThenElse(on, After(second, second, hn::ShiftRight<kParityPlace>(entry)), second);
    const auto value = hn::ShiftRight<kValuePlace>(hn::BitCast(di, entry));
    Put(dependent, part + i, value, hn::Load(Real(), step.scales + i));
    if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Lt(value, hn::Set(di, kLastEscape + 1)))))
      if (!PatchEscapes(dependent, escapes, entry, static_cast<std::size_t>(count) - i,
                        step.scales + i, 1, part + i))
        return false;
  }
  std::memcpy(out, part, static_cast<std::size_t>(count) * sizeof(Out));
  return true;
}
#endif

/// Up to 64 values, each with a base and a scale of its own, with low bits apart in some lanes.
template <typename Form, typename Out>
HWY_NOINLINE bool ShiftedStep(Form dependent, Lanes& lanes, Escapes& escapes,
                              const std::uint32_t* entries, const StepInput& step,
                              std::int64_t count, Out* out) {
  const Word d;
  const Whole di;
  HWY_ALIGN std::uint32_t taken[kLaneCount], lows[kLaneCount], seconds[kLaneCount];
  for (std::size_t j = 0; j < kVectors; ++j) {
    const std::size_t i = j * kWidth;
    hn::Store(hn::And(lanes.quantizers[j], hn::Set(d, 1)), d, seconds + i);
    const auto on = FirstLanes(j, count);
    hn::Store(TakeEntries<true>(dependent, lanes, j, entries, hn::Load(di, step.bases + i), on), d,
              taken + i);
  }
  for (std::size_t j = 0; j < kVectors; ++j) {
    const std::size_t i = j * kWidth;
    const auto shift = hn::BitCast(d, hn::Load(di, step.shifts + i));
    const auto x = lanes.states[j];
    hn::Store(hn::And(x, hn::Sub(hn::Shl(hn::Set(d, 1), shift), hn::Set(d, 1))), d, lows + i);
    const auto on = hn::AndNot(hn::Eq(shift, hn::Zero(d)), FirstLanes(j, count));
    const auto y = hn::IfThenElse(on, hn::Shr(x, shift), x);
    const auto due = hn::And(on, hn::Eq(hn::ShiftRight<16>(y), hn::Zero(d)));
    const Taken words = TakeWords(due, lanes.word);
    lanes.word += 2 * words.count;
    lanes.states[j] = hn::IfThenElse(due, hn::Or(hn::ShiftLeft<16>(y), words.words), y);
  }
  const auto most = hn::Set(di, kMaxMagnitude);
  HWY_ALIGN Out part[kLaneCount];
  bool good = true;
  for (std::size_t j = 0; j < kVectors && static_cast<std::int64_t>(j * kWidth) < count; ++j) {
    const std::size_t i = j * kWidth;
    const auto on = FirstLanes(j, count);
    const auto entry = hn::Load(d, taken + i), second = hn::Load(d, seconds + i);
    const auto value = hn::ShiftRight<kValuePlace>(hn::BitCast(di, entry));
    auto integer = value;
    if (dependent) {  // of half steps
      const auto above = hn::VecFromMask(di, hn::Gt(value, hn::Zero(di)));
      integer = hn::ShiftRight<1>(hn::Add(value, hn::And(above, hn::BitCast(di, second))));
    }
    const auto escaped = hn::Lt(value, hn::Set(di, kLastEscape + 1));
    if (HWY_UNLIKELY(!hn::AllFalse(di, escaped))) {
      HWY_ALIGN std::int32_t above[kWidth];
      hn::Store(integer, di, above);
      for (std::size_t lane = 0; lane < kWidth && static_cast<std::int64_t>(i + lane) < count;
           ++lane)
        if (is_escape(taken[i + lane]))
          good &= escapes.take(taken[i + lane], static_cast<unsigned>(step.shifts[i + lane]),
                               above[lane]);
      if (!good) return false;
      integer = hn::Load(di, above);
    }
    integer = hn::Or(hn::Shl(integer, hn::Load(di, step.shifts + i)),
                     hn::BitCast(di, hn::Load(d, lows + i)));
    const auto beyond = hn::Or(hn::Gt(integer, most), hn::Lt(integer, hn::Neg(most)));
    good &= hn::AllFalse(di, hn::And(hn::RebindMask(di, on), beyond));
    if (dependent) {
      const auto state = lanes.quantizers[j];
      lanes.quantizers[j] = hn::IfThenElse(on, After(state, state, hn::BitCast(d, integer)), state);
    }
    if (dependent) {
      const auto one = hn::BitCast(di, second);
      const auto sign = hn::Sub(hn::And(hn::VecFromMask(di, hn::Lt(integer, hn::Zero(di))), one),
                                hn::And(hn::VecFromMask(di, hn::Gt(integer, hn::Zero(di))), one));
      integer = hn::Add(hn::Add(integer, integer), sign);
    }
    Put(dependent, part + i, integer, hn::Load(Real(), step.scales + i));
  }
  std::memcpy(out, part, static_cast<std::size_t>(count) * sizeof(Out));
  return good;
}

HWY_INLINE Lanes Load(const StripeCursor& cursor) {
  Lanes lanes;
  GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j) {
    lanes.states[j] = hn::Load(Word(), cursor.states.data() + j * kWidth);
    lanes.quantizers[j] = hn::Zero(Word());
  }
  lanes.word = cursor.word;
  return lanes;
}
HWY_INLINE void Store(const Lanes& lanes, const Escapes& escapes, StripeCursor& cursor) {
  GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j)
      hn::Store(lanes.states[j], Word(), cursor.states.data() + j * kWidth);
  cursor.word = lanes.word;
  cursor.escape = escapes.next;
}

template <typename Form, typename Out>
bool DecodeValues(Form dependent, const BlockInput& block, StripeCursor& cursor, Out* out) {
  Lanes lanes = Load(cursor);
  Escapes escapes{cursor.escape, cursor.escapes_end};
  const std::byte* const words_end = cursor.words_end;
  const Whole di;
  const std::uint32_t* const entries = block.entries;
  StepInput step;
  for (std::int64_t i = 0; i < block.values;) {
    const std::int64_t line = i / block.width, first = line * block.width;
    const std::int64_t end = std::min(block.values, first + block.width);
    const int cls = block.lines[line];
    const auto base = hn::Set(di, cls * ((dependent ? 2 : 1) << kTableBits));
    const float scale =
        block.row_scales ? block.row_scales[(block.first + i) / block.row_size] : block.scale;
    const bool one_row = !block.row_scales || block.row_size == block.width;
    for (; one_row && i + kLaneCount <= end && cls + block.highest[i - first] < kTables;
         i += kLaneCount) {
      if (!LineStep(dependent, lanes, escapes, entries, block.bases + (i - first), base, scale,
                    out + i))
        return false;
      if (HWY_UNLIKELY(lanes.word > words_end)) return false;
    }
    if (i >= end) continue;
    const std::int64_t count = std::min(kLaneCount, block.values - i);
    prepare_step(block, i, count, step);
    bool good;
#ifndef GBC_FREESTANDING  // which decodes steps without low bits as those with them
    if (!step.shifted) {
      good = MixedStep(dependent, lanes, escapes, entries, step, count, out + i);
    } else  // NOLINT
#endif
    {
      Lanes copy = lanes;
      good = ShiftedStep(dependent, copy, escapes, entries, step, count, out + i);
      lanes = copy;
    }
    if (!good || lanes.word > words_end) return false;
    i += count;
  }
  Store(lanes, escapes, cursor);
  return true;
}

void ScaleUnits(const float* units, std::int64_t count, float scale, float* out) {
  const Real d;
  constexpr auto kStep = static_cast<std::int64_t>(kWidth);
  const auto factor = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(hn::Mul(hn::LoadU(d, units + i), factor), d, out + i);
  for (; i < count; ++i) out[i] = units[i] * scale;
}

#ifdef GBC_FREESTANDING
bool DecodeFloats(const BlockInput& block, StripeCursor& cursor, float* out) {
  return DecodeValues(block.dependent, block, cursor, out);
}
#else
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
#endif

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#undef GBC_UNROLL

#endif  // toggled once a level
