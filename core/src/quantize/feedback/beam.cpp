#include "quantize/feedback/beam.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/trellis/scale_classes.h"
#include "gbcompress/error.h"
#include "quantize/feedback/add_scaled.h"

namespace gbcompress {
namespace {

using codec::QuantizerState;

/// Integers that stay open: all paths have long come from one path then.
constexpr std::size_t kOpen = 1024;
static_assert(kOpen >= Beam::kLast);
constexpr float kMostSteps = 0x1p20f;
constexpr float kNever = 0x1p100f;  ///< cost of paths that are given up

constexpr std::int64_t kIndex = 0xffff;  ///< of a branch, in its key

/// codec::rate_costs() in squared steps.
const std::vector<float>& costs_in_squared_steps() {
  static const std::vector<float> instance = [] {
    std::vector<float> costs;
    for (const std::int32_t cost : codec::rate_costs())
      costs.push_back(cost == codec::kNeverChosen ? kNever : static_cast<float>(cost) / 1024);
    return costs;
  }();
  return instance;
}

/// An integer and what it stands for, in steps.
struct Choice {
  std::int32_t magnitude;
  float value;
};

/// The nearest of that parity; quantizer 1 is half a step nearer to zero.
Choice nearest(float magnitude, unsigned quantizer, int parity) {
  const float shift = quantizer ? 0.5f : 0.0f;
  const auto half = static_cast<std::int32_t>((magnitude + shift) * 0.5f + (parity ? 0.0f : 0.5f));
  std::int32_t integer = 2 * half + parity;
  if (quantizer && integer == 0) integer = 2;
  return {integer, static_cast<float>(integer) - shift};
}

}  // namespace

Beam::Beam(const BeamColumns& columns, std::size_t paths)
    : columns_(columns), count_(columns.sizes.size()), most_(paths), paths_(1) {
  for (auto& targets : targets_) targets.resize(most_ * count_);
  for (auto& targets : near_) targets.resize(most_ * kBlock);
  errors_.resize(kBlock * most_);
  next_.reserve(most_);
}

void Beam::row(std::span<const float> values, std::span<const float> targets,
               std::span<const std::int8_t> classes, double row_cost, float row_weight) {
  turn_ = 0;
  for (std::size_t p = 0; p < paths_.size(); ++p)
    std::copy(targets.begin(), targets.end(),
              targets_[0].begin() + static_cast<std::ptrdiff_t>(p * count_));
  for (std::size_t first = 0; first < count_; first += kBlock) {
    const std::size_t end = std::min(first + kBlock, count_);
    for (std::size_t p = 0; p < paths_.size(); ++p)
      std::copy_n(targets_[turn_].data() + p * count_ + first, end - first,
                  near_[0].data() + p * kBlock);
    for (std::size_t j = first; j < end; ++j) {
      branch(j, classes[j], row_weight);
      choose();
      column(j, first, end, values[j], row_cost * columns_.costs[j]);
    }
    if (end < count_) end_block(first, end);
  }
  float least = paths_[0].cost;
  for (const Path& path : paths_) least = std::min(least, path.cost);
  for (Path& path : paths_) path.cost -= least;
  const std::size_t open = std::max(kOpen, 2 * count_);  // last_rows() reads them
  if (steps_.size() >= 2 * open * most_) decide(open);
}

void Beam::column(std::size_t column, std::size_t first, std::size_t end, float value,
                  double cost) {
  const std::size_t at = column - first, open = steps_.size();
  float* to[kMostPaths];
  const float* from[kMostPaths];
  float* const errors = errors_.data() + at * most_;
  next_.clear();
  steps_.resize(open + most_);
  for (std::size_t p = 0; p < followed_; ++p) {
    const Branch& of = branches_[static_cast<std::size_t>(keys_[p] & kIndex)];
    steps_[open + p] = {of.integer, of.path, static_cast<std::uint8_t>(paths_[of.path].state & 1)};
    next_.push_back({of.cost,
                     paths_[of.path].loss + cost * static_cast<double>(of.error * of.error),
                     of.state});
    from[p] = near_[at % 2].data() + of.path * kBlock + at + 1;
    to[p] = near_[1 - at % 2].data() + p * kBlock + at + 1;
    // The path's target less its error is what the integer stands for.
    errors[p] = value - (from[p][-1] - of.error * columns_.sizes[column]);
  }
  add_errors(to, from, errors, columns_.factors.data() + column * count_ + column + 1,
             static_cast<std::int64_t>(followed_), static_cast<std::int64_t>(end - column - 1));
  paths_.swap(next_);
}

void Beam::end_block(std::size_t first, std::size_t end) {
  const std::size_t width = end - first, open = steps_.size() / most_ - width;
  float* to[kMostPaths];
  const float* from[kMostPaths];
  std::array<float, kBlock * kMostPaths> errors;  // of the paths that are left
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    std::size_t at = p;
    for (std::size_t t = width; t-- > 0;) {
      errors[t * most_ + p] = errors_[t * most_ + at];
      at = steps_[(open + t) * most_ + at].before;
    }
    from[p] = targets_[turn_].data() + at * count_ + end;
    to[p] = targets_[1 - turn_].data() + p * count_ + end;
  }
  const ErrorRun of{errors.data(), static_cast<std::int64_t>(most_),
                    columns_.factors.data() + first * count_ + end,
                    static_cast<std::int64_t>(count_), static_cast<std::int64_t>(width)};
  add_error_runs(to, from, of, static_cast<std::int64_t>(paths_.size()),
                 static_cast<std::int64_t>(count_ - end));
  turn_ = 1 - turn_;
}

/// Both parities of each path, with the cheapest integer of each.
void Beam::branch(std::size_t column, int scale, float row_weight) {
  const float inverse = 1 / columns_.sizes[column], weight = columns_.weights[column] * row_weight;
  const float* const costs = costs_in_squared_steps().data() +
                             (scale - codec::kLeastScaleClass) * 2 * codec::kCostMagnitudes;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const Path& path = paths_[p];
    const unsigned quantizer = path.state & 1;
    const float* const own = costs + (quantizer ? codec::kCostMagnitudes : 0);
    const std::size_t at = column % kBlock;
    const float scaled = near_[at % 2][p * kBlock + at] * inverse;
    const float magnitude = std::fabs(scaled), sign = scaled < 0 ? -1.0f : 1.0f;
    if (!(magnitude < kMostSteps))
      throw Error(Errc::kNonFinite, "error feedback leaves the range of integers");
    const auto cost = [&](const Choice& of) {
      const float off = magnitude - of.value;
      return weight * off * off + own[std::min(of.magnitude, codec::kCostMagnitudes - 1)];
    };
    for (const unsigned parity : {0u, 1u}) {
      Choice best = nearest(magnitude, quantizer, static_cast<int>(parity));
      float least = cost(best);
      if (parity == 0) {
        const float of_zero = weight * magnitude * magnitude + own[0];
        if (of_zero < least) {
          best = {0, 0};
          least = of_zero;
        }
      }
      branches_[2 * p + parity] = {
          path.cost + least, sign * (magnitude - best.value),
          scaled < 0 ? -best.magnitude : best.magnitude, static_cast<std::uint8_t>(p),
          static_cast<std::uint8_t>(QuantizerState::after(path.state, parity))};
    }
  }
}

/// Leaves the cheapest branch of each state, and of these the cheapest. Where two cost the same,
/// the state that they come from decides, so that the order of the paths means nothing.
void Beam::choose() {
  static_assert(2 * kMostPaths <= kMostKeys);
  constexpr std::uint8_t kNone = 0xff;
  std::array<std::uint8_t, QuantizerState::kStates> at;
  at.fill(kNone);
  followed_ = 0;
  for (std::size_t b = 0; b < 2 * paths_.size(); ++b) {
    const Branch& branch = branches_[b];
    // Costs are not negative: they have the order of their bits.
    const std::int64_t key = std::int64_t{std::bit_cast<std::int32_t>(branch.cost)} << 32 |
                             std::int64_t{paths_[branch.path].state} << 16 |
                             static_cast<std::int64_t>(b);
    // Whether another branch came to the state no processor foresees: no branch.
    const std::uint8_t place = at[branch.state];
    const std::size_t fresh = place == kNone, mask = 0 - fresh;
    const std::size_t slot = (followed_ & mask) | (place & ~mask);
    keys_[followed_] = std::numeric_limits<std::int64_t>::max();
    keys_[slot] = std::min(keys_[slot], key);
    at[branch.state] = static_cast<std::uint8_t>(slot);
    followed_ += fresh;
  }
  if (followed_ > most_) followed_ = keep_least(keys_.data(), followed_, most_);
}

/// Decides on all but the last `open` integers as the cheapest path does, and leaves the paths that
/// agree.
void Beam::decide(std::size_t open) {
  const std::size_t length = steps_.size() / most_, done = length - open;
  std::vector<std::size_t> origin(paths_.size());  // of each path, where the open ones begin
  std::size_t cheapest = 0;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    std::size_t at = p;
    for (std::size_t t = length; t-- > done;) at = steps_[t * most_ + at].before;
    origin[p] = at;
    if (paths_[p].cost < paths_[cheapest].cost) cheapest = p;
  }
  const std::size_t first = integers_.size();
  integers_.resize(first + done);
  std::size_t at = origin[cheapest];
  for (std::size_t t = done; t-- > 0;) {
    integers_[first + t] = steps_[t * most_ + at].integer;
    at = steps_[t * most_ + at].before;
  }
  for (std::size_t p = 0; p < paths_.size(); ++p)
    if (origin[p] != origin[cheapest]) paths_[p].cost = kNever;
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(done * most_));
}

void Beam::last_rows(std::span<float> stored) const {
  std::size_t at = 0;
  for (std::size_t p = 1; p < paths_.size(); ++p)
    if (paths_[p].cost < paths_[at].cost) at = p;
  std::size_t t = steps_.size() / most_;
  for (std::size_t n = stored.size(); n-- > 0;) {
    const Step& step = steps_[--t * most_ + at];
    const auto magnitude = static_cast<float>(std::abs(step.integer)) -
                           (step.quantizer && step.integer != 0 ? 0.5f : 0.0f);
    stored[n] =
        std::copysign(magnitude, static_cast<float>(step.integer)) * columns_.sizes[n % count_];
    at = step.before;
  }
}

std::vector<std::int32_t> Beam::finish() {
  const auto cheapest = std::min_element(
      paths_.begin(), paths_.end(), [](const Path& a, const Path& b) { return a.cost < b.cost; });
  loss_ = cheapest->loss;
  decide(0);
  return std::move(integers_);
}

}  // namespace gbcompress
