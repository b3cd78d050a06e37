// Steps of the coder of bytes for one level of a processor; included once a level.
#if defined(GBC_BYTE_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_BYTE_STEPS_INL_H_
#undef GBC_BYTE_STEPS_INL_H_
#else
#define GBC_BYTE_STEPS_INL_H_
#endif

#include <hwy/highway.h>

#include "codec/byte_steps.h"
#include "codec/lanes/push_words-inl.h"
#include "codec/rans.h"

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE2
#define GBC_BYTES_ONE_BY_ONE 1
#else
#define GBC_BYTES_ONE_BY_ONE 0
#include "codec/lanes/look_up-inl.h"
#include "codec/lanes/take_words-inl.h"
#endif

#if HWY_IS_ASAN || HWY_IS_MSAN || HWY_IS_TSAN
#define GBC_UNROLL_VECTORS
#elif HWY_COMPILER_CLANG
#define GBC_UNROLL_VECTORS _Pragma("clang loop unroll_count(8)")
#else
#define GBC_UNROLL_VECTORS _Pragma("GCC unroll 8")
#endif

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace coded = lanes::HWY_NAMESPACE;

#if GBC_BYTES_ONE_BY_ONE  // the caller's loop is as fast
std::size_t DecodeByteSteps(const ByteSteps&, std::size_t, std::uint32_t*, const std::byte*&,
                            const std::byte*, std::byte*) {
  return 0;
}
hn::Vec<coded::CodeTag> PartsAt(const std::uint32_t* parts,
                                hn::Vec<hn::RebindToSigned<coded::CodeTag>> at) {
  return hn::GatherIndex(coded::CodeTag(), parts, at);
}
#else
HWY_INLINE hn::Vec<coded::CodeTag> PartsAt(const std::uint32_t* parts, hn::Vec<coded::Whole> at) {
  return coded::LookUp(parts, at);
}

/// States stay in registers where there are so many: each loop over them is unrolled.
template <std::size_t kVectors>
HWY_INLINE std::size_t DecodeInVectors(const ByteSteps& in, std::size_t count,
                                       std::uint32_t* states, const std::byte*& word,
                                       const std::byte* end, std::byte* out) {
  const coded::Word d;
  const coded::Whole di;
  const hn::Rebind<std::uint8_t, coded::Word> narrow;
  hn::Vec<coded::Word> state[kVectors];
  for (std::size_t j = 0; j < kVectors; ++j) state[j] = hn::LoadU(d, states + j * coded::kWidth);
  const auto slots = hn::Set(d, kWhole - 1);
  const std::byte* next = word;
  std::size_t step = 0, left = 0;
  const std::uint32_t* entries = in.entries;
  // A step takes a word for each lane at most; vectors of words are read whole.
  constexpr std::ptrdiff_t kReach = 2 * kManyLanes + 64;
  for (; step < count && end - next >= kReach; ++step) {
    if (in.classes && left == 0) {
      entries = in.entries + (std::size_t{in.classes[step / in.steps_of_run]} << kProbabilityBits);
      left = in.steps_of_run;
    }
    --left;
    hn::Vec<coded::Word> entry[kVectors];
    GBC_UNROLL_VECTORS for (std::size_t j = 0; j < kVectors; ++j) entry[j] =
        coded::LookUp(entries, hn::BitCast(di, hn::And(state[j], slots)));
    GBC_UNROLL_VECTORS for (std::size_t j = 0; j < kVectors; ++j) {
      const auto width = hn::And(hn::ShiftRight<kProbabilityBits>(entry[j]), slots);
      const auto x = hn::Add(hn::Mul(width, hn::ShiftRight<kProbabilityBits>(state[j])),
                             hn::And(entry[j], slots));
      state[j] = coded::Refill(x, coded::IsLow(x), next);
      hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<24>(entry[j])), narrow,
                 reinterpret_cast<std::uint8_t*>(out) + step * kManyLanes + j * coded::kWidth);
    }
  }
  for (std::size_t j = 0; j < kVectors; ++j) hn::StoreU(state[j], d, states + j * coded::kWidth);
  word = next;
  return step;
}

std::size_t DecodeByteSteps(const ByteSteps& in, std::size_t count, std::uint32_t* states,
                            const std::byte*& word, const std::byte* end, std::byte* out) {
  return DecodeInVectors<kManyLanes / coded::kWidth>(in, count, states, word, end, out);
}
#endif

/// Lanes are in reverse, as Pushed() wants them.
std::uint16_t* EncodeByteSteps(const ByteSteps& in, const std::byte* bytes, std::size_t count,
                               std::uint32_t* states, std::uint16_t* next) {
  using coded::CodeTag;
  constexpr std::size_t kVectors = kManyLanes / coded::kCodeWidth;
  static_assert(coded::kCodeWidth <= kByteWordsInVain);
  const CodeTag d;
  const hn::RebindToSigned<CodeTag> di;
  const hn::Rebind<std::uint8_t, CodeTag> narrow;
  const coded::Reversal reversed;
  const auto place_of = [&](std::size_t v) { return v * coded::kCodeWidth; };
  hn::Vec<CodeTag> state[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v)
    state[v] = reversed(hn::LoadU(d, states + place_of(v)));
  const auto whole = hn::Set(d, kWhole);
  for (std::size_t step = count; step-- > 0;) {
    const std::uint32_t* const parts =
        in.entries + (in.classes ? std::size_t{in.classes[step / in.steps_of_run]} << 8 : 0);
    const auto* const from = reinterpret_cast<const std::uint8_t*>(bytes) + step * kManyLanes;
    GBC_UNROLL_VECTORS for (std::size_t k = 0; k < kVectors; ++k) {
      const std::size_t v = kVectors - 1 - k;
      const auto places = hn::PromoteTo(d, hn::LoadU(narrow, from + place_of(v)));
      const auto part = reversed(PartsAt(parts, hn::BitCast(di, places)));
      const auto width = hn::ShiftRight<16>(part);
      const auto full = hn::Gt(hn::Add(hn::ShiftRight<20>(state[v]), hn::Set(d, 1u)), width);
      const auto x = coded::Pushed(state[v], full, next);
      // quotient * 2^12 + rest + start
      state[v] = hn::Add(hn::Add(x, hn::And(part, hn::Set(d, 0xffff))),
                         hn::Mul(coded::Quotient(x, width), hn::Sub(whole, width)));
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v)
    hn::StoreU(reversed(state[v]), d, states + place_of(v));
  return next;
}

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec
HWY_AFTER_NAMESPACE();

#undef GBC_BYTES_ONE_BY_ONE
#undef GBC_UNROLL_VECTORS

#endif  // toggled once a level
