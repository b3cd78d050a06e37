#include "codec/lanes/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec::lanes {
namespace {

/// One value as it is coded, before escapes.
struct Coded {
  std::size_t table;     ///< of the set, quantizer included
  std::int32_t integer;  ///< above the low bits
  std::uint32_t shift, low;
};

/// Calls take(coded) for the values of a block in their order.
template <typename Take>
void for_block(const Classes& classes, bool dependent, const Shape& shape, std::int64_t block,
               std::span<const std::int32_t> values, const Take& take) {
  const std::int8_t* line = classes.lines.data() + block * shape.block_lines;
  const std::int8_t* const columns =
      classes.by_column ? classes.columns_of(block, shape.width) : nullptr;
  std::array<unsigned, kLaneCount> states{};
  const std::int64_t size = shape.size(block);
  const unsigned parity_mask = dependent ? 1 : 0;
  for (std::int64_t first = 0; first < size; first += shape.width, ++line) {
    const std::int64_t end = std::min(size, first + shape.width);
    for (std::int64_t i = first; i < end; ++i) {
      const int cls = columns ? std::clamp(*line + columns[i - first], 0, kClasses - 1) : *line;
      const std::int32_t value = values[static_cast<std::size_t>(i)];
      unsigned& state = states[static_cast<std::size_t>(i % kLaneCount)];
      const auto table = static_cast<std::size_t>(table_of(cls));
      const auto shift = static_cast<std::uint32_t>(shift_of(cls));
      take(Coded{dependent ? 2 * table + (state & 1) : table, value >> shift, shift,
                 static_cast<std::uint32_t>(value) & ((1u << shift) - 1)});
      state = QuantiserState::after(state, static_cast<unsigned>(value) & parity_mask);
    }
  }
}

std::size_t symbol(std::int32_t integer) {
  return integer >= -kSpan && integer <= kSpan ? static_cast<std::size_t>(symbol_of(integer))
                                               : static_cast<std::size_t>(integer & 1);
}

void append_escape(std::vector<std::byte>& bytes, std::int32_t integer) {
  std::uint32_t code =
      static_cast<std::uint32_t>(integer) << 1 ^ static_cast<std::uint32_t>(integer >> 31);
  for (; code >= 128; code >>= 7) bytes.push_back(static_cast<std::byte>(code | 128));
  bytes.push_back(static_cast<std::byte>(code));
}

/// Parts of the unit interval, taken backwards: the words in the order in which they are read.
class Backwards {
 public:
  Backwards(std::vector<std::uint16_t>& room, std::size_t most) : room_(room) {
    room_.resize(std::max(room_.size(), most));
    next_ = end_ = room_.data() + room_.size();
    states_.fill(1u << 16);
  }
  void part(std::size_t lane, std::uint32_t part) {
    std::uint32_t& x = states_[lane];
    const std::uint32_t width = part >> 16;
    if (x >> (32 - kTableBits) >= width) push(x);
    const std::uint32_t quotient = x / width;
    x = (quotient << kTableBits) + (x - quotient * width) + (part & 0xffff);
  }
  void low(std::size_t lane, std::uint32_t low) {
    std::uint32_t& x = states_[lane];
    const std::uint32_t shift = low >> 16;
    if (shift == 0) return;
    if (x >> (32 - shift) != 0) push(x);
    x = x << shift | (low & 0xffff);
  }
  std::span<const std::uint32_t> states() const { return states_; }
  std::span<const std::uint16_t> words() const { return {next_, end_}; }

 private:
  void push(std::uint32_t& x) {
    *--next_ = static_cast<std::uint16_t>(x);
    x >>= 16;
  }

  std::vector<std::uint16_t>& room_;
  std::array<std::uint32_t, kLaneCount> states_;
  std::uint16_t *next_, *end_;
};

}  // namespace

void Survey::add(const IntegerGrid& grid, std::span<const std::int32_t> values) {
  const Shape& shape = shapes_.emplace_back(grid);
  GridHead& head = grids_.emplace_back();
  head.set = grid.dependent ? kDependent : kNearest;
  head.classes = find_classes(shape, values);
  Counts* const counts = counts_[head.set].data();
  for (std::int64_t block = 0; block < shape.blocks(); ++block)
    for_block(head.classes, grid.dependent, shape, block,
              values.subspan(static_cast<std::size_t>(shape.first(block))),
              [&](const Coded& coded) { ++counts[coded.table][symbol(coded.integer)]; });
}

std::vector<std::byte> Survey::finish() {
  std::vector<std::uint32_t> places(sets_.size());
  std::vector<TableSet> needed;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    bool any = false;
    for (std::size_t t = 0; t < sets_[s].size(); ++t) {
      const Counts& counts = counts_[s][t];
      sets_[s].used[t] =
          std::any_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n > 0; });
      any |= sets_[s].used[t];
      if (sets_[s].used[t]) sets_[s].widths[t] = widths_for(counts);
    }
    places[s] = static_cast<std::uint32_t>(needed.size());
    if (any) needed.push_back(sets_[s]);
  }
  sets_ = std::move(needed);
  HeadWriter writer(sets_);
  for (std::size_t g = 0; g < grids_.size(); ++g) {
    grids_[g].set = places[grids_[g].set];
    writer.add(shapes_[g], sets_[grids_[g].set].dependent, grids_[g]);
  }
  return writer.finish();
}

void StripeEncoder::add(const Survey& survey, const GridHead& grid, const Shape& shape,
                        std::int64_t block, std::span<const std::int32_t> values) {
  const TableSet& set = survey.set(grid);
  std::vector<std::uint32_t> parts(set.size() * kSymbols);
  for (std::size_t t = 0; t < set.size(); ++t) {
    std::uint32_t start = 0;
    for (std::size_t i = 0; i < kSymbols; ++i) {
      const std::uint32_t width = set.widths[t][i];
      parts[t * kSymbols + i] = width << 16 | start;
      start += width;
    }
  }
  const std::size_t before = parts_.size();
  parts_.reserve(before + values.size());
  bool shifted = false;
  std::vector<std::uint32_t> lows;
  lows.reserve(values.size());
  for_block(grid.classes, set.dependent, shape, block, values, [&](const Coded& coded) {
    const std::size_t first = coded.table * kSymbols;
    std::size_t at = first + symbol(coded.integer);
    if (at < first + kFirstInteger || parts[at] >> 16 == 0) {
      at = first + static_cast<std::size_t>(coded.integer & 1);
      append_escape(escapes_, coded.integer);
    }
    parts_.push_back(parts[at]);
    lows.push_back(coded.shift << 16 | coded.low);
    shifted |= coded.shift > 0;
  });
  if (shifted || !lows_.empty()) {
    lows_.resize(before);
    if (!shifted) lows.assign(lows.size(), 0);
    lows_.insert(lows_.end(), lows.begin(), lows.end());
  }
  blocks_.push_back(values.size());
}

std::vector<std::byte> StripeEncoder::finish() {
  Backwards coder(room_, 2 * parts_.size());
  std::size_t end = parts_.size();
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    const std::size_t first = end - blocks_[b];
    while (end > first) {
      const std::size_t step = first + (end - first - 1) / kLaneCount * kLaneCount;
      if (!lows_.empty())
        for (std::size_t i = end; i-- > step;) coder.low(i - step, lows_[i]);
      for (std::size_t i = end; i-- > step;) coder.part(i - step, parts_[i]);
      end = step;
    }
  }
  const auto words = std::as_bytes(coder.words());
  const auto states = std::as_bytes(coder.states());
  std::vector<std::byte> stripe;
  const auto count = static_cast<std::uint32_t>(words.size() / 2);
  const auto size = std::as_bytes(std::span(&count, 1));
  for (const auto part : {size, states, words, std::span<const std::byte>(escapes_)})
    stripe.insert(stripe.end(), part.begin(), part.end());
  while (stripe.size() % 4 != 0) stripe.push_back(std::byte{0});
  bits_ += 8 * static_cast<double>(stripe.size());
  parts_.clear();
  lows_.clear();
  blocks_.clear();
  escapes_.clear();
  return stripe;
}

}  // namespace gbcompress::codec::lanes
