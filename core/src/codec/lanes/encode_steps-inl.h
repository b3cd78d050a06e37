// Steps of the encoder for one level of a processor; included once a level.
#if defined(GBC_LANES_ENCODE_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_LANES_ENCODE_STEPS_INL_H_
#undef GBC_LANES_ENCODE_STEPS_INL_H_
#else
#define GBC_LANES_ENCODE_STEPS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "codec/lanes/classes.h"
#include "codec/lanes/encode_steps.h"
#include "codec/lanes/push_words-inl.h"
#include "codec/lanes/tables.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::lanes {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(kCodeWidth <= kWordsInVain && kLaneCount % kCodeWidth == 0);

constexpr std::size_t kVectors = kLaneCount / kCodeWidth;

/// Whether a value of the step has low bits.
HWY_INLINE bool AnyLow(const std::uint32_t* lows) {
  const CodeTag d;
  auto all = hn::LoadU(d, lows);
  for (std::size_t v = 1; v < kVectors; ++v) all = hn::Or(all, hn::LoadU(d, lows + v * kCodeWidth));
  return !hn::AllTrue(d, hn::Eq(all, hn::Zero(d)));
}

HWY_INLINE void PushLows(const std::uint32_t* lows, hn::Vec<CodeTag>* state,
                         const Reversal& reversed, std::uint16_t*& next) {
  const CodeTag d;
  for (std::size_t v = kVectors; v-- > 0;) {
    const auto low = reversed(hn::LoadU(d, lows + v * kCodeWidth));
    const auto shift = hn::ShiftRight<16>(low);
    const auto above =
        hn::ShiftRight<1>(hn::Shr(state[v], hn::Sub(hn::Set(d, 31u), shift)));  // 32 is no shift
    const auto x = Pushed(state[v], hn::Ne(above, hn::Zero(d)), next);
    state[v] = hn::Or(hn::Shl(x, shift), hn::And(low, hn::Set(d, 0xffff)));
  }
}

std::uint16_t* PushSteps(const std::uint32_t* parts, const std::uint32_t* lows, std::size_t steps,
                         std::uint32_t* states, std::uint16_t* next) {
  const CodeTag d;
  const Reversal reversed;
  hn::Vec<CodeTag> state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v)
    state[v] = reversed(hn::LoadU(d, states + v * kCodeWidth));
  const auto whole = hn::Set(d, kWholeTable), one = hn::Set(d, 1u);
  for (std::size_t step = steps; step-- > 0;) {
    if (lows && AnyLow(lows + step * kLaneCount))
      PushLows(lows + step * kLaneCount, state, reversed, next);
    for (std::size_t v = kVectors; v-- > 0;) {
      const auto part = reversed(hn::LoadU(d, parts + step * kLaneCount + v * kCodeWidth));
      const auto width = hn::ShiftRight<16>(part);
      const auto full = hn::Gt(hn::Add(hn::ShiftRight<32 - kTableBits>(state[v]), one), width);
      const auto x = Pushed(state[v], full, next);
      // quotient * 2^11 + rest + start
      state[v] = hn::Add(hn::Add(x, hn::And(part, hn::Set(d, 0xffff))),
                         hn::Mul(Quotient(x, width), hn::Sub(whole, width)));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v)
    hn::StoreU(reversed(state[v]), d, states + v * kCodeWidth);
  return next;
}

/// One value of FindSymbols().
void FindSymbol(std::int32_t value, int cls, std::uint16_t& place, std::uint32_t* low) {
  const int shift = shift_of(cls);
  place = static_cast<std::uint16_t>(table_of(cls) * kSymbols + symbol_or_escape(value >> shift));
  if (low)
    *low = static_cast<std::uint32_t>(shift << 16) |
           (static_cast<std::uint32_t>(value) & ((1u << shift) - 1));
}

void FindSymbols(const LineInput& line, std::uint16_t* places, std::uint32_t* lows) {
  const hn::CappedTag<std::int32_t, 16> d;
  const CodeTag du;
  const hn::Rebind<std::int8_t, decltype(d)> bytes;
  const hn::Rebind<std::uint16_t, decltype(d)> narrow;
  const auto base = hn::Set(d, line.cls), zero = hn::Zero(d), one = hn::Set(d, 1);
  std::size_t i = 0;
  for (; i + kCodeWidth <= line.count; i += kCodeWidth) {
    const auto value = hn::LoadU(d, line.values + i);
    auto cls = base;
    if (line.columns) cls = hn::Add(base, hn::PromoteTo(d, hn::LoadU(bytes, line.columns + i)));
    cls = hn::Min(hn::Max(cls, zero), hn::Set(d, kClasses - 1));
    // A third of what is above kCoarse, rounded down.
    const auto coarse = hn::Max(hn::Sub(cls, hn::Set(d, kCoarse)), zero);
    const auto shift = hn::ShiftRight<7>(hn::Mul(coarse, hn::Set(d, 43)));
    const auto integer = hn::Shr(value, shift);
    const auto symbol =
        hn::IfThenElse(hn::Lt(hn::Abs(integer), hn::Set(d, kSpan + 1)),
                       hn::Add(integer, hn::Set(d, symbol_of(0))), hn::And(integer, one));
    const auto table = hn::Sub(cls, hn::Mul(shift, hn::Set(d, kPerOctave)));
    const auto place = hn::Add(hn::Mul(table, hn::Set(d, kSymbols)), symbol);
    hn::StoreU(hn::DemoteTo(narrow, place), narrow, places + i);
    if (!lows) continue;
    const auto low = hn::And(value, hn::Sub(hn::Shl(one, shift), one));
    hn::StoreU(hn::BitCast(du, hn::Or(hn::ShiftLeft<16>(shift), low)), du, lows + i);
  }
  for (; i < line.count; ++i) {
    const int cls = line.cls + (line.columns ? line.columns[i] : 0);
    FindSymbol(line.values[i], std::clamp(cls, 0, kClasses - 1), places[i],
               lows ? lows + i : nullptr);
  }
}

std::uint64_t AddMagnitudes(const std::int32_t* values, std::size_t count, std::uint64_t* sums) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const hn::Rebind<std::int32_t, decltype(d)> narrow;
  const hn::Rebind<std::uint32_t, decltype(d)> unsigned_narrow;
  constexpr std::size_t kStep = hn::MaxLanes(hn::CappedTag<std::uint64_t, 8>());
  auto all = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto size = hn::BitCast(unsigned_narrow, hn::Abs(hn::LoadU(narrow, values + i)));
    const auto wide = hn::PromoteTo(d, size);
    all = hn::Add(all, wide);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), wide), d, sums + i);
  }
  std::uint64_t sum = hn::GetLane(hn::SumOfLanes(d, all));
  for (; i < count; ++i) {
    const auto size =
        static_cast<std::uint64_t>(values[i] < 0 ? -std::int64_t{values[i]} : values[i]);
    sums[i] += size;
    sum += size;
  }
  return sum;
}

bool TakeParts(const std::uint16_t* places, std::size_t count, const std::uint32_t* table,
               std::uint32_t* parts) {
  const CodeTag d;
  const hn::RebindToSigned<CodeTag> di;
  const hn::Rebind<std::uint16_t, CodeTag> narrow;
  auto least = hn::Set(d, ~0u);
  std::size_t i = 0;
  for (; i + kCodeWidth <= count; i += kCodeWidth) {
    const auto place = hn::PromoteTo(di, hn::LoadU(narrow, places + i));
    const auto part = hn::GatherIndex(d, table, place);
    hn::StoreU(part, d, parts + i);
    least = hn::Min(least, part);
  }
  std::uint32_t smallest = hn::GetLane(hn::MinOfLanes(d, least));
  for (; i < count; ++i) {
    parts[i] = table[places[i]];
    smallest = std::min(smallest, parts[i]);
  }
  return smallest < 1u << 16;
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::lanes
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
