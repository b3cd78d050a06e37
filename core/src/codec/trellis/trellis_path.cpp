// Viterbi's algorithm with a band in each lane: the same operations for every lane, so that results
// do not depend on how many there are. Path costs are integers of 16 bits, 256 to a squared half
// step; what all paths have in common is taken off now and then.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/trellis/trellis_path.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <vector>

#include "codec/trellis/quantizer_state.h"
#include "codec/trellis/trellis_path.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kStates = QuantizerState::kStates;
constexpr std::size_t kHalf = kStates / 2;
constexpr std::size_t kWords = kStates / 16;  // of decisions, one bit a state
// The highest bit of a state says which quantizer led to it; either parity may have.
static_assert((QuantizerState::kFeedback & kHalf) && !(QuantizerState::kParity & kHalf));

constexpr std::uint16_t kNever = 0x7000;  // cost of states where no path begins
constexpr std::int64_t kRest = 32;        // numbers between looks at the least cost
constexpr std::int64_t kBlock = 256;      // numbers that are laid out for lanes at a time
constexpr float kMostScaled = 0x1p22f;    // half steps; beyond what files hold
constexpr int kZero0 = 1, kZero1 = 2;     // an even integer is zero, though not the nearest
constexpr int kParityBit = 1, kQuantizerBit = 2, kZeroBit = 4;  // what paths leave of a number

using Wide = hn::CappedTag<std::uint16_t, 32>;
using Real = hn::RepartitionToWide<hn::Rebind<std::int16_t, Wide>>;
using Float = hn::Rebind<float, Real>;

/// The path comes to `state` from here, with an integer of this parity.
constexpr std::size_t before(std::size_t state, unsigned parity) {
  const std::size_t quantizer = state / kHalf;
  const std::size_t shifted =
      state ^ (quantizer ? QuantizerState::kFeedback : 0) ^ (parity ? QuantizerState::kParity : 0);
  return 2 * shifted + quantizer;
}
constexpr auto kBefore = [] {
  std::array<std::array<std::uint16_t, 2>, kStates> table{};
  for (std::size_t state = 0; state < kStates; ++state)
    for (unsigned parity = 0; parity < 2; ++parity)
      table[state][parity] = static_cast<std::uint16_t>(before(state, parity));
  return table;
}();

/// With |a| in half steps, the nearest of magnitude 2 r + parity is r = (|a| + shift) / 4 rounded,
/// at least `least`; it stands for 4 r - shift.
template <class V>
V NearestQuarter(Float d, V magnitude, V shift, V least) {
  const auto quarter = hn::Mul(hn::Add(magnitude, shift), hn::Set(d, 0.25f));
  return hn::Max(hn::Round(quarter), least);
}

/// Both halves of the lanes as one vector, which is left at `memory` too. Without vectors there is
/// one lane, and both halves are that.
hn::Vec<Wide> Join(hn::Vec<Real> low, hn::Vec<Real> high, std::uint16_t* memory) {
  const hn::Half<Wide> half;
  hn::StoreU(hn::DemoteTo(half, low), half, memory);
  if (HWY_TARGET != HWY_SCALAR)
    hn::StoreU(hn::DemoteTo(half, high), half, memory + hn::Lanes(half));
  return hn::LoadU(Wide(), memory);
}

struct Costs {
  hn::Vec<Real> even, odd;
  hn::Mask<Real> zero;
};

/// What the best even and odd integers of a quantizer cost.
template <int kQuantizer>
Costs CostsOf(hn::Vec<Float> magnitude, hn::Vec<Real> classes, const std::int32_t* costs) {
  const Float d;
  const Real di;
  const auto base = hn::Add(classes, hn::Set(di, kQuantizer * kCostMagnitudes));
  const auto cost = [&](auto r, int parity) {
    const auto shift = hn::Set(d, static_cast<float>(kQuantizer - 2 * parity));
    const auto off = hn::Sub(magnitude, hn::Sub(hn::Mul(r, hn::Set(d, 4.0f)), shift));
    const auto square =
        hn::Min(hn::Mul(hn::Mul(off, off), hn::Set(d, 256.0f)), hn::Set(d, 0x1p20f));
    const auto integer = hn::Add(hn::ShiftLeft<1>(hn::ConvertTo(di, r)), hn::Set(di, parity));
    const auto index = hn::Add(base, hn::Min(integer, hn::Set(di, kCostMagnitudes - 1)));
    return hn::Add(hn::NearestInt(square), hn::GatherIndex(di, costs, index));
  };
  const auto nearest = [&](int parity) {
    return NearestQuarter(d, magnitude, hn::Set(d, static_cast<float>(kQuantizer - 2 * parity)),
                          hn::Set(d, kQuantizer == 1 && parity == 0 ? 1.0f : 0.0f));
  };
  const auto even = cost(nearest(0), 0);
  const auto square =
      hn::Min(hn::Mul(hn::Mul(magnitude, magnitude), hn::Set(d, 256.0f)), hn::Set(d, 0x1p20f));
  const auto none = hn::Add(hn::NearestInt(square), hn::GatherIndex(di, costs, base));
  return {hn::Min(even, none), cost(nearest(1), 1), hn::Lt(none, even)};
}

/// Numbers of several bands, those of one place side by side.
struct Layout {
  std::vector<float> magnitudes;      ///< [kBlock, lanes] in half steps
  std::vector<std::int32_t> offsets;  ///< [kBlock, lanes] of their class's rate costs
};

void LayOut(std::span<const Band> bands, std::size_t lanes, std::int64_t first, float inverse,
            Layout& layout) {
  std::fill(layout.magnitudes.begin(), layout.magnitudes.end(), 0.0f);
  for (std::size_t lane = 0; lane < bands.size(); ++lane) {
    const Band& band = bands[lane];
    const std::int64_t count = std::min(kBlock, band.size - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t to = static_cast<std::size_t>(i) * lanes + lane;
      const float scaled = std::abs(band.values[first + i] * inverse);
      layout.magnitudes[to] = scaled < kMostScaled ? scaled : kMostScaled;
      layout.offsets[to] = (band.classes[first + i] - kLeastScaleClass) * 2 * kCostMagnitudes;
    }
  }
}

/// Costs of all states after one number more.
void Advance(Wide d, const std::uint16_t* from, std::uint16_t* to, std::uint16_t* decisions,
             hn::Vec<Wide> even0, hn::Vec<Wide> odd0, hn::Vec<Wide> even1, hn::Vec<Wide> odd1) {
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t word = 0; word < kWords; ++word) {
    const bool second = word >= kWords / 2;
    const auto even = second ? even1 : even0, odd = second ? odd1 : odd0;
    auto chosen = hn::Zero(d);
    auto bit = hn::Set(d, 1);
    for (std::size_t state = 16 * word; state < 16 * (word + 1); ++state) {
      const auto a = hn::SaturatedAdd(hn::Load(d, from + kBefore[state][0] * lanes), even);
      const auto b = hn::SaturatedAdd(hn::Load(d, from + kBefore[state][1] * lanes), odd);
      const auto least = hn::Min(a, b);
      hn::Store(least, d, to + state * lanes);
      chosen = hn::Or(chosen, hn::IfThenElseZero(hn::Eq(least, b), bit));
      bit = hn::Add(bit, bit);
    }
    hn::StoreU(chosen, d, decisions + word * lanes);
  }
}

void TakeOffLeast(Wide d, std::uint16_t* costs) {
  const std::size_t lanes = hn::Lanes(d);
  auto least = hn::Load(d, costs);
  for (std::size_t s = 1; s < kStates; ++s) least = hn::Min(least, hn::Load(d, costs + s * lanes));
  for (std::size_t s = 0; s < kStates; ++s)
    hn::Store(hn::Sub(hn::Load(d, costs + s * lanes), least), d, costs + s * lanes);
}

/// Integers and error of a band whose `integers` hold what the path left.
void Finish(Band& band, float step) {
  const Float d;
  const Real di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float inverse = 2 / step;
  const auto one = hn::Set(di, 1);
  const auto finish = [&](const float* values, std::int32_t* integers) {
    const auto left = hn::LoadU(di, integers);
    const auto parity = hn::And(left, one);
    const auto quantizer = hn::And(hn::ShiftRight<1>(left), one);
    const auto scaled = hn::Mul(hn::LoadU(d, values), hn::Set(d, inverse));
    const auto magnitude = hn::Min(hn::Abs(scaled), hn::Set(d, kMostScaled));
    const auto shift = hn::ConvertTo(d, hn::Sub(quantizer, hn::ShiftLeft<1>(parity)));
    const auto least = hn::ConvertTo(d, hn::AndNot(parity, quantizer));
    const auto r = hn::ConvertTo(di, NearestQuarter(d, magnitude, shift, least));
    const auto size = hn::IfThenZeroElse(hn::Ne(hn::And(left, hn::Set(di, kZeroBit)), hn::Zero(di)),
                                         hn::Add(hn::ShiftLeft<1>(r), parity));
    const auto negative = hn::RebindMask(di, hn::Lt(scaled, hn::Zero(d)));
    hn::StoreU(hn::IfThenElse(negative, hn::Neg(size), size), di, integers);
  };
  std::int64_t i = 0;
  for (; i + lanes <= band.size; i += lanes) finish(band.values + i, band.integers + i);
  float values[32] = {};
  std::int32_t integers[32] = {};
  std::copy(band.values + i, band.values + band.size, values);
  std::copy(band.integers + i, band.integers + band.size, integers);
  finish(values, integers);
  std::copy(integers, integers + (band.size - i), band.integers + i);
}

/// The paths of as many bands as there are lanes.
void Choose(std::span<Band> bands, float step, const RateCosts& rate_costs,
            std::vector<std::uint16_t>& decisions, std::vector<std::uint16_t>& zeros) {
  const Wide d;
  const Real di;
  const Float df;
  const std::size_t lanes = hn::Lanes(d), half = lanes / 2;
  std::int64_t longest = 0, shortest = bands[0].size;
  for (const Band& band : bands) {
    longest = std::max(longest, band.size);
    shortest = std::min(shortest, band.size);
  }
  decisions.resize(static_cast<std::size_t>(longest) * kWords * lanes);
  zeros.resize(static_cast<std::size_t>(longest) * lanes);
  Layout layout{std::vector<float>(kBlock * lanes), std::vector<std::int32_t>(kBlock * lanes)};
  HWY_ALIGN std::uint16_t joined[32];
  HWY_ALIGN std::uint16_t costs[2][kStates * 32];
  std::fill_n(costs[0], kStates * lanes, kNever);
  std::fill_n(costs[0], lanes, std::uint16_t{0});
  std::array<std::size_t, 32> states{};  // where the paths end

  for (std::int64_t i = 0; i < longest; ++i) {
    if (i % kBlock == 0) LayOut(bands, lanes, i, 2 / step, layout);
    if (i % kRest == kRest - 1) TakeOffLeast(d, costs[i % 2]);
    const std::size_t at = static_cast<std::size_t>(i % kBlock) * lanes;
    const auto side = [&](std::size_t offset) {
      const auto magnitude = hn::LoadU(df, layout.magnitudes.data() + at + offset);
      const auto classes = hn::LoadU(di, layout.offsets.data() + at + offset);
      const Costs q0 = CostsOf<0>(magnitude, classes, rate_costs.data());
      const Costs q1 = CostsOf<1>(magnitude, classes, rate_costs.data());
      const auto least = hn::Min(hn::Min(q0.even, q0.odd), hn::Min(q1.even, q1.odd));
      struct Side {
        hn::Vec<Real> even0, odd0, even1, odd1, zero;
      };
      return Side{hn::Sub(q0.even, least), hn::Sub(q0.odd, least), hn::Sub(q1.even, least),
                  hn::Sub(q1.odd, least),
                  hn::Or(hn::IfThenElseZero(q0.zero, hn::Set(di, kZero0)),
                         hn::IfThenElseZero(q1.zero, hn::Set(di, kZero1)))};
    };
    const auto low = side(0), high = side(half);
    Join(low.zero, high.zero, zeros.data() + static_cast<std::size_t>(i) * lanes);
    Advance(d, costs[i % 2], costs[1 - i % 2],
            decisions.data() + static_cast<std::size_t>(i) * kWords * lanes,
            Join(low.even0, high.even0, joined), Join(low.odd0, high.odd0, joined),
            Join(low.even1, high.even1, joined), Join(low.odd1, high.odd1, joined));
    for (std::size_t lane = 0; lane < bands.size() && i + 1 >= shortest; ++lane) {
      if (bands[lane].pinned || bands[lane].size != i + 1) continue;
      const std::uint16_t* last = costs[1 - i % 2] + lane;
      for (std::size_t s = 1; s < kStates; ++s)
        if (last[s * lanes] < last[states[lane] * lanes]) states[lane] = s;
    }
  }

  for (std::int64_t i = longest; i-- > 0;) {
    const std::uint16_t* row = decisions.data() + static_cast<std::size_t>(i) * kWords * lanes;
    const std::uint16_t* zero = zeros.data() + static_cast<std::size_t>(i) * lanes;
    for (std::size_t lane = 0; lane < bands.size(); ++lane) {
      if (i >= bands[lane].size) continue;
      const std::size_t state = states[lane];
      const unsigned odd = row[state / 16 * lanes + lane] >> state % 16 & 1;
      const auto quantizer = static_cast<unsigned>(state / kHalf);
      states[lane] = before(state, odd);
      const unsigned none = ~odd & (zero[lane] >> quantizer) & 1;
      bands[lane].integers[i] =
          static_cast<std::int32_t>(odd * kParityBit + quantizer * kQuantizerBit + none * kZeroBit);
    }
  }
  for (Band& band : bands) Finish(band, step);
}

void ChoosePaths(std::span<Band> bands, float step, const RateCosts& rate_costs) {
  std::vector<std::uint16_t> decisions, zeros;
  const std::size_t lanes = hn::Lanes(Wide());
  for (std::size_t first = 0; first < bands.size(); first += lanes)
    Choose(bands.subspan(first, std::min(lanes, bands.size() - first)), step, rate_costs, decisions,
           zeros);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress::codec {
namespace {
HWY_EXPORT(ChoosePaths);

/// Sum of squared errors of a band, in an order of its own.
double squared_error(const Band& band, float step) {
  double sums[4] = {};
  QuantizerState state(true);
  for (std::int64_t i = 0; i < band.size; ++i) {
    const std::int32_t integer = band.integers[i];
    const auto made = static_cast<double>(static_cast<float>(state.twice(integer)) * (step / 2));
    const double off = made - static_cast<double>(band.values[i]);
    sums[i % 4] += off * off;
    state.pass(integer);
  }
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}
}  // namespace

void choose_paths(std::span<Band> bands, float step, const RateCosts& rate_costs) {
  HWY_DYNAMIC_DISPATCH(ChoosePaths)(bands, step, rate_costs);
  for (Band& band : bands) band.error = squared_error(band, step);
}

}  // namespace gbcompress::codec
#endif  // HWY_ONCE
