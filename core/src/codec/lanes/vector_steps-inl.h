// The steps of a block in vectors, for one level of a processor; included once a level.
#if defined(GBC_LANES_VECTOR_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_VECTOR_STEPS_INL_H_
#undef GBC_LANES_VECTOR_STEPS_INL_H_
#else
#define GBC_LANES_VECTOR_STEPS_INL_H_
#endif

#include <hwy/highway.h>
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "codec/lanes/decode_block.h"
#include "codec/lanes/escape.h"
#include "codec/lanes/look_up-inl.h"
#include "codec/lanes/put_units-inl.h"
#include "codec/lanes/take_words-inl.h"
#include "codec/trellis/quantizer_state.h"

// Unrolled, the states of lanes stay in registers; sanitizers would compile that for minutes, and
// WebAssembly is compiled for machines with fewer registers than states.
#if HWY_IS_ASAN || HWY_IS_MSAN || HWY_IS_TSAN || defined(__wasm__)
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

constexpr std::size_t kVectors = static_cast<std::size_t>(kLaneCount) / kWidth;
/// Vectors that a step processes in parallel: the dependency chain of one vector is longer than the
/// reorder buffer of a processor.
constexpr std::size_t kGroup = 4;

/// States of all lanes, and where words are taken from. Nothing keeps its address, so that it stays
/// in registers.
struct Lanes {
  hn::Vec<Word> states[kVectors], quantizers[kVectors];
  const std::byte* word;

  HWY_INLINE explicit Lanes(const StripeCursor& cursor) : word(cursor.word) {
    GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j) {
      states[j] = hn::Load(Word(), cursor.states.data() + j * kWidth);
      quantizers[j] = hn::Zero(Word());
    }
  }
  HWY_INLINE void store(const Escapes& escapes, StripeCursor& cursor) const {
    GBC_UNROLL for (std::size_t j = 0; j < kVectors; ++j)
        hn::Store(states[j], Word(), cursor.states.data() + j * kWidth);
    cursor.word = word;
    cursor.escape = escapes.next;
  }
};

/// The states of quantizers stand above kTableBits, where their lowest bit is the distance to the
/// table of the second quantizer. Bits below it mean nothing.
constexpr std::uint32_t kSecond = std::uint32_t{1} << kTableBits;

/// 1 where the second quantizer is next.
HWY_INLINE hn::Vec<Word> Seconds(hn::Vec<Word> state) {
  return hn::And(hn::ShiftRight<kTableBits>(state), hn::Set(Word(), 1));
}
/// False where the code that is compiled is of nearest integers alone. With a form that is known
/// when it runs, the states of nearest integers stay 0: no branch in every vector.
template <typename Form>
constexpr bool kHasStates = !std::is_same_v<Form, std::false_type>;

/// States after integers whose parity is bit kPlace of `integer`.
template <int kPlace, typename Form>
HWY_INLINE hn::Vec<Word> After(Form dependent, hn::Vec<Word> state, hn::Vec<Word> integer) {
  const Word d;
  const auto with = [&](hn::Vec<Word> x, hn::Mask<Word> on, std::uint32_t taps) {
#if HWY_TARGET == HWY_AVX3  // one instruction, which Highway does not have (1.0.3)
    return hn::Vec<Word>{
        _mm512_mask_xor_epi32(x.raw, on.raw, x.raw, hn::Set(d, taps << kTableBits).raw)};
#else
    return hn::Xor(x, hn::And(hn::VecFromMask(d, on), hn::Set(d, taps << kTableBits)));
#endif
  };
  const auto first = with(hn::ShiftRight<1>(state), hn::TestBit(state, hn::Set(d, kSecond)),
                          QuantizerState::kFeedback);
  return with(first, hn::TestBit(integer, hn::Set(d, std::uint32_t{1} << kPlace)),
              dependent ? QuantizerState::kParity : 0);
}

/// 2 to the power of a shift of 0 to 15 in each lane, and x shifted down by it where it is not 0.
struct Shift {
  hn::Vec<Whole> power, shift;
  HWY_INLINE explicit Shift(hn::Vec<Whole> by) : shift(by) {
    const Whole d;
#if HWY_TARGET == HWY_WASM  // which has no shift by lane: of the exponent of a float
    const auto number = hn::ShiftLeft<23>(hn::Add(by, hn::Set(d, 127)));
    power = hn::ConvertTo(d, hn::BitCast(Real(), number));
#else
    power = hn::Shl(hn::Set(d, 1), by);
#endif
  }
  HWY_INLINE hn::Vec<Word> Down(hn::Vec<Word> x) const {
#if HWY_TARGET == HWY_WASM  // the high halves of products with 2^(32 - shift)
    const Whole d;
    const auto number = hn::ShiftLeft<23>(hn::Sub(hn::Set(d, 127 + 32), shift));
    const v128_t factor = wasm_u32x4_trunc_sat_f32x4(number.raw);
    const v128_t low = wasm_u64x2_extmul_low_u32x4(x.raw, factor);
    const v128_t high = wasm_u64x2_extmul_high_u32x4(x.raw, factor);
    return hn::Vec<Word>{wasm_i32x4_shuffle(low, high, 1, 3, 5, 7)};
#else
    return hn::Shr(x, hn::BitCast(Word(), shift));
#endif
  }
};

/// Takes the next symbols of the lanes that are on. @return their entries
template <typename Form>
HWY_INLINE hn::Vec<Word> TakeEntries(Form, Lanes& lanes, std::size_t j,
                                     const std::uint32_t* entries, hn::Vec<Whole> base,
                                     hn::Mask<Word> on) {
  const Word d;
  const auto low = hn::Set(d, kWholeTable - 1);
  const auto x = lanes.states[j];
  auto at = hn::OrAnd(hn::BitCast(d, base), x, low);
  if (kHasStates<Form>) at = hn::OrAnd(at, lanes.quantizers[j], hn::Set(d, kSecond));
  const auto entry = LookUp(entries, hn::BitCast(Whole(), at));
  const auto width = hn::And(hn::ShiftRight<kTableBits>(entry), low);
  const auto y = hn::Add(hn::Mul(width, hn::ShiftRight<kTableBits>(x)), hn::And(entry, low));
  lanes.states[j] = hn::IfThenElse(on, Refill(y, hn::And(IsLow(y), on), lanes.word), x);
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

/// 64 values of a line without low bits. @param line  distance of the line's class in `entries`
template <typename Form, typename Out>
HWY_INLINE bool line_step(Form dependent, Lanes& lanes, Escapes& escapes,
                          const std::uint32_t* entries, const std::int32_t* columns,
                          std::int32_t line, float scale, Out* out) {
  const Word d;
  const Whole di;
  const auto low = hn::Set(d, kWholeTable - 1);
  const auto factor = hn::Set(Real(), scale);
  hn::Vec<Word> taken[kVectors];
  auto least = hn::Zero(di);
  const std::byte* word = lanes.word;
  std::size_t end = kVectors;
#if defined(GBC_FREESTANDING) && HWY_TARGET == HWY_AVX2
  asm("" : "+r"(end));  // not unrolled: half the code, and states lie in memory in either case
#endif
  GBC_UNROLL for (std::size_t g = 0; g < end; g += kGroup) {
    GBC_UNROLL for (std::size_t j = g; j < g + kGroup; ++j) {
      const auto sum = hn::Add(hn::Set(di, line), hn::LoadU(di, columns + j * kWidth));
      const auto base = hn::BitCast(d, hn::Max(sum, hn::Zero(di)));
      auto at = hn::OrAnd(base, lanes.states[j], low);
      if (kHasStates<Form>) at = hn::OrAnd(at, lanes.quantizers[j], hn::Set(d, kSecond));
      taken[j] = LookUp(entries, hn::BitCast(di, at));
    }
    GBC_UNROLL for (std::size_t j = g; j < g + kGroup; ++j) {
      const auto entry = taken[j];
      const auto value = hn::ShiftRight<kValuePlace>(hn::BitCast(di, entry));
      least = hn::Min(least, hn::BitCast(di, entry));
      Put(dependent, out + j * kWidth, value, factor);
      if (kHasStates<Form>)
        lanes.quantizers[j] = After<kParityPlace>(dependent, lanes.quantizers[j], entry);
      const auto width = hn::And(hn::ShiftRight<kTableBits>(entry), low);
      const auto y =
          hn::Add(hn::Mul(width, hn::ShiftRight<kTableBits>(lanes.states[j])), hn::And(entry, low));
      lanes.states[j] = Refill(y, IsLow(y), word);
    }
  }
  lanes.word = word;
  const auto least_value = hn::Set(di, (kLastEscape + 1) * (1 << kValuePlace));
  if (HWY_LIKELY(hn::AllFalse(di, hn::Lt(least, least_value)))) return true;
  for (std::size_t j = 0; j < kVectors; ++j)
    if (!PatchEscapes(dependent, escapes, taken[j], kWidth, &scale, 0, out + j * kWidth))
      return false;
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
    const auto entry = TakeEntries(dependent, lanes, j, entries, hn::Load(di, step.bases + i), on);
    if (kHasStates<Form>) {
      const auto state = lanes.quantizers[j];
      lanes.quantizers[j] = hn::IfThenElse(on, After<kParityPlace>(dependent, state, entry), state);
    }
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
    hn::Store(Seconds(lanes.quantizers[j]), d, seconds + i);
    const auto on = FirstLanes(j, count);
    hn::Store(TakeEntries(dependent, lanes, j, entries, hn::Load(di, step.bases + i), on), d,
              taken + i);
  }
  for (std::size_t j = 0; j < kVectors; ++j) {
    const std::size_t i = j * kWidth;
    const Shift shift(hn::Load(di, step.shifts + i));
    const auto x = lanes.states[j];
    const auto low = hn::BitCast(d, hn::Sub(shift.power, hn::Set(di, 1)));
    hn::Store(hn::And(x, low), d, lows + i);
    const auto on = hn::AndNot(hn::Eq(low, hn::Zero(d)), FirstLanes(j, count));
    const auto y = hn::IfThenElse(on, shift.Down(x), x);
    lanes.states[j] = Refill(y, hn::And(on, IsLow(y)), lanes.word);
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
    integer = hn::Or(hn::Mul(integer, Shift(hn::Load(di, step.shifts + i)).power),
                     hn::BitCast(di, hn::Load(d, lows + i)));
    const auto beyond = hn::Or(hn::Gt(integer, most), hn::Lt(integer, hn::Neg(most)));
    good &= hn::AllFalse(di, hn::And(hn::RebindMask(di, on), beyond));
    if (kHasStates<Form>) {
      const auto state = lanes.quantizers[j];
      const auto after = After<0>(dependent, state, hn::BitCast(d, integer));
      lanes.quantizers[j] = hn::IfThenElse(on, after, state);
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

/// Times x >> 9: x / 3 of distances of classes.
constexpr int kThird = 171;
static_assert([] {
  for (int cls = kCoarse; cls < kClasses; ++cls)
    if ((cls - kCoarse) * kThird >> 9 != shift_of(cls)) return false;
  return true;
}());

/// prepare_step() of 64 values of a line. @param columns  their columns' classes
HWY_NOINLINE void PrepareLine(bool dependent, std::int8_t line, const std::int8_t* columns,
                              float scale, StepInput& step) {
  const Whole d;
  const hn::Rebind<std::int8_t, Whole> narrow;
  auto highest = hn::Zero(d);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kLaneCount); i += kWidth) {
    const auto sum = hn::Add(hn::PromoteTo(d, hn::LoadU(narrow, columns + i)), hn::Set(d, line));
    const auto cls = hn::Max(hn::Min(sum, hn::Set(d, kClasses - 1)), hn::Zero(d));
    const auto above = hn::Max(hn::Sub(cls, hn::Set(d, kCoarse)), hn::Zero(d));
    const auto shift = hn::ShiftRight<9>(hn::Mul(above, hn::Set(d, kThird)));
    const auto table = hn::Sub(cls, hn::Mul(shift, hn::Set(d, kPerOctave)));
    hn::Store(hn::ShiftLeft<kTableBits>(dependent ? hn::Add(table, table) : table), d,
              step.bases + i);
    hn::Store(shift, d, step.shifts + i);
    hn::Store(hn::Set(Real(), scale), Real(), step.scales + i);
    highest = hn::Max(highest, cls);
  }
  step.shifted = !hn::AllFalse(d, hn::Gt(highest, hn::Set(d, kTables - 1)));
}

/// Up to 64 values, each with a base and a scale of its own.
template <typename Form, typename Out>
HWY_INLINE bool any_step(Form dependent, Lanes& lanes, Escapes& escapes,
                         const std::uint32_t* entries, const StepInput& step, std::int64_t count,
                         Out* out) {
#ifndef GBC_FREESTANDING  // which decodes steps without low bits as those with them
  if (!step.shifted) return MixedStep(dependent, lanes, escapes, entries, step, count, out);
#endif
  Lanes copy = lanes;  // so that the address of `lanes` is not taken
  const bool good = ShiftedStep(dependent, copy, escapes, entries, step, count, out);
  lanes = copy;
  return good;
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#undef GBC_UNROLL

#endif  // toggled once a level
