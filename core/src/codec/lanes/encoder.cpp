#include "codec/lanes/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "codec/lanes/encode_steps.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec::lanes {
namespace {

/// One value as it is coded, before escapes.
struct Coded {
  std::size_t table;     ///< of the set, quantizer included
  std::int32_t integer;  ///< above the low bits
  std::uint32_t shift, low;
};

/// For each class before its quantizer: table, and low bits.
struct ClassForm {
  std::uint16_t table, shift;
};
constexpr auto kForms = [] {
  std::array<ClassForm, kClasses> forms{};
  for (int c = 0; c < kClasses; ++c)
    forms[static_cast<std::size_t>(c)] = {static_cast<std::uint16_t>(2 * table_of(c)),
                                          static_cast<std::uint16_t>(shift_of(c))};
  return forms;
}();

/// Calls take(coded) for the values of a block of a dependent grid in their order.
template <typename Take>
void for_dependent(const Classes& classes, const Shape& shape, std::int64_t block,
                   std::span<const std::int32_t> values, const Take& take) {
  const std::int8_t* line = classes.lines.data() + block * shape.block_lines;
  const std::int8_t* const columns =
      classes.by_column ? classes.columns_of(block, shape.width) : nullptr;
  std::array<unsigned, kLaneCount> states{};
  const std::int64_t size = shape.size(block);
  for (std::int64_t first = 0; first < size; first += shape.width, ++line) {
    const std::int64_t end = std::min(size, first + shape.width);
    for (std::int64_t i = first; i < end; ++i) {
      const int cls = columns ? std::clamp(*line + columns[i - first], 0, kClasses - 1) : *line;
      const std::int32_t value = values[static_cast<std::size_t>(i)];
      const auto [table, shift] = kForms[static_cast<std::size_t>(cls)];
      unsigned& state = states[static_cast<std::size_t>(i) % kLaneCount];
      take(Coded{table + (state & 1), value >> shift, shift,
                 static_cast<std::uint32_t>(value) & ((1u << shift) - 1)});
      state = QuantizerState::after(state, static_cast<unsigned>(value) & 1);
    }
  }
}

/// Values that are looked up together: their places lie in the first cache.
constexpr std::size_t kRun = 256;

/// Calls take(values, places, count) for runs of a block whose values are nearest integers.
/// @param lows  if not null: shift << 16 | low bits of the block's values
template <typename Take>
void for_places(const Classes& classes, const Shape& shape, std::int64_t block,
                std::span<const std::int32_t> values, std::uint32_t* lows, const Take& take) {
  const std::int8_t* line = classes.lines.data() + block * shape.block_lines;
  const std::int8_t* const columns =
      classes.by_column ? classes.columns_of(block, shape.width) : nullptr;
  const auto size = static_cast<std::size_t>(shape.size(block));
  const auto width = static_cast<std::size_t>(shape.width);
  std::array<std::uint16_t, kRun> places;
  for (std::size_t first = 0; first < size; first += width, ++line)
    for (std::size_t column = 0; column < std::min(width, size - first); column += kRun) {
      const std::size_t count = std::min({kRun, width - column, size - first - column});
      const std::int32_t* const run = values.data() + first + column;
      find_symbols({run, columns ? columns + column : nullptr, count, *line}, places.data(), lows);
      if (lows) lows += count;
      take(run, places.data(), count);
    }
}

/// Whether values of these classes may have low bits apart.
bool may_shift(const Classes& classes) {
  const auto largest = [](const std::vector<std::int8_t>& list) {
    return list.empty() ? 0 : int{*std::max_element(list.begin(), list.end())};
  };
  return largest(classes.lines) + (classes.by_column ? largest(classes.columns) : 0) >= kTables;
}

/// 2^64 / width, rounded up: the high half of its product with x < 2^32 is x / width. 1 has what is
/// one less, and then x > 0 is x - 1.
constexpr auto kInverses = [] {
  std::array<std::uint64_t, kWholeTable> inverses{};
  inverses[1] = ~std::uint64_t{0};
  for (std::size_t width = 2; width < kWholeTable; ++width)
    inverses[width] = ~std::uint64_t{0} / width + 1;
  return inverses;
}();

std::uint32_t divided(std::uint32_t x, std::uint32_t width) {
  return static_cast<std::uint32_t>(static_cast<unsigned __int128>(kInverses[width]) * x >> 64) +
         (width == 1);
}

std::size_t symbol(std::int32_t integer) {
  return static_cast<std::size_t>(symbol_or_escape(integer));
}

/// Two counters of each place: a counter that was just written is slow to read.
void count_places(const Classes& classes, const Shape& shape, std::int64_t block,
                  std::span<const std::int32_t> values,
                  std::vector<std::array<std::uint32_t, kSymbols>>& counts) {
  std::array<std::vector<std::uint32_t>, 2> seen;
  for (auto& each : seen) each.resize(counts.size() * kSymbols);
  for_places(classes, shape, block, values, nullptr,
             [&](const std::int32_t*, const std::uint16_t* places, std::size_t count) {
               std::size_t i = 0;
               for (; i + 2 <= count; i += 2) {
                 ++seen[0][places[i]];
                 ++seen[1][places[i + 1]];
               }
               if (i < count) ++seen[0][places[i]];
             });
  for (std::size_t t = 0; t < counts.size(); ++t)
    for (std::size_t i = 0; i < kSymbols; ++i)
      counts[t][i] += seen[0][t * kSymbols + i] + seen[1][t * kSymbols + i];
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
    room_.resize(std::max(room_.size(), most + kWordsInVain));  // push_if() writes one in vain
    next_ = end_ = room_.data() + room_.size();
    states_.fill(1u << 16);
  }
  void part(std::size_t lane, std::uint32_t part) {
    const std::uint32_t width = part >> 16;
    const std::uint32_t before = states_[lane];
    const std::uint32_t x = push_if(before >> (32 - kTableBits) >= width, before);
    const std::uint32_t quotient = divided(x, width);
    states_[lane] = (quotient << kTableBits) + (x - quotient * width) + (part & 0xffff);
  }
  void steps(const std::uint32_t* parts, const std::uint32_t* lows, std::size_t count) {
    next_ = push_steps(parts, lows, count, states_.data(), next_);
  }
  void low(std::size_t lane, std::uint32_t low) {
    const std::uint32_t shift = low >> 16;
    if (shift == 0) return;
    const std::uint32_t before = states_[lane];
    states_[lane] = push_if(before >> (32 - shift) != 0, before) << shift | (low & 0xffff);
  }
  std::span<const std::uint32_t> states() const { return states_; }
  std::span<const std::uint16_t> words() const { return {next_, end_}; }

 private:
  /// One time in three or so: a branch would be a bet.
  std::uint32_t push_if(bool full, std::uint32_t x) {
    next_[-1] = static_cast<std::uint16_t>(x);
    next_ -= full;
    return x >> (full ? 16 : 0);
  }

  std::vector<std::uint16_t>& room_;
  std::array<std::uint32_t, kLaneCount> states_;
  std::uint16_t *next_, *end_;
};

}  // namespace

void Survey::add(const IntegerGrid& grid, const Blocks& blocks, int threads) {
  const Shape& shape = shapes_.emplace_back(grid);
  GridHead& head = grids_.emplace_back();
  head.set = grid.dependent ? kDependent : kNearest;
  head.classes = find_classes(shape, blocks, threads);
  const std::int64_t parts = parts_for(shape, threads);
  const std::size_t tables = sets_[head.set].size();
  parts_.resize(std::max(parts_.size(), static_cast<std::size_t>(parts)));
  for (std::int64_t part = 0; part < parts; ++part)
    parts_[static_cast<std::size_t>(part)].assign(tables, {});
  for_parts(shape, blocks, parts,
            [&](std::int64_t part, std::int64_t block, std::span<const std::int32_t> here) {
              std::vector<SymbolCounts>& counts = parts_[static_cast<std::size_t>(part)];
              if (!grid.dependent) return count_places(head.classes, shape, block, here, counts);
              for_dependent(head.classes, shape, block, here, [&](const Coded& coded) {
                ++counts[coded.table][symbol(coded.integer)];
              });
            });
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::size_t t = 0; t < tables; ++t)
      for (std::size_t i = 0; i < kSymbols; ++i)
        counts_[head.set][t][i] += parts_[static_cast<std::size_t>(part)][t][i];
}

std::vector<std::byte> Survey::finish() {
  std::vector<std::uint32_t> places(sets_.size());
  std::vector<TableSet> needed;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    bool any = false;
    for (std::size_t t = 0; t < sets_[s].size(); ++t) {
      const Counts& counts = counts_[s][t];
      sets_[s].used[t] =
          std::any_of(counts.begin(), counts.end(), [](std::uint64_t n) { return n > 0; });
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
  parts_.resize(before + values.size());
  const bool shifted = may_shift(grid.classes);
  if (shifted || !lows_.empty()) lows_.resize(before + values.size());
  std::uint32_t* low = shifted ? lows_.data() + before : nullptr;
  std::uint32_t* next = parts_.data() + before;
  blocks_.push_back(values.size());
  if (!set.dependent) return add_places(grid, shape, block, values, parts, next, low);
  for_dependent(grid.classes, shape, block, values, [&](const Coded& coded) {
    const std::size_t first = coded.table * kSymbols;
    std::size_t at = first + symbol(coded.integer);
    if (at < first + kFirstInteger || parts[at] >> 16 == 0) {
      at = first + static_cast<std::size_t>(coded.integer & 1);
      append_escape(escapes_, coded.integer);
    }
    *next++ = parts[at];
    if (low) *low++ = coded.shift << 16 | coded.low;
  });
}

/// @param table  entries of all symbols
void StripeEncoder::add_places(const GridHead& grid, const Shape& shape, std::int64_t block,
                               std::span<const std::int32_t> values,
                               const std::vector<std::uint32_t>& table, std::uint32_t* next,
                               std::uint32_t* lows) {
  // Without the escapes, so that what is one is told by its width.
  std::vector<std::uint32_t> integers = table;
  for (std::size_t at = 0; at < integers.size(); at += kSymbols)
    std::fill_n(integers.begin() + static_cast<std::ptrdiff_t>(at), kFirstInteger, 0);
  const std::uint32_t* const begin = next;
  for_places(grid.classes, shape, block, values, lows,
             [&](const std::int32_t* run, const std::uint16_t* places, std::size_t count) {
               std::uint32_t* const parts = std::exchange(next, next + count);
               if (!take_parts(places, count, integers.data(), parts)) return;
               for (std::size_t i = 0; i < count; ++i) {
                 if (parts[i] >> 16 != 0) continue;
                 const std::size_t first = places[i] - places[i] % std::size_t{kSymbols};
                 const std::int32_t integer =
                     lows ? run[i] >> (lows[parts - begin + static_cast<std::ptrdiff_t>(i)] >> 16)
                          : run[i];
                 parts[i] = table[first + static_cast<std::size_t>(integer & 1)];
                 append_escape(escapes_, integer);
               }
             });
}

std::vector<std::byte> StripeEncoder::finish() {
  Backwards coder(room_, 2 * parts_.size());
  std::size_t end = parts_.size();
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    const std::size_t first = end - blocks_[b];
    const std::size_t steps = (end - first) / kLaneCount, whole = first + steps * kLaneCount;
    if (!lows_.empty())
      for (std::size_t i = end; i-- > whole;) coder.low(i - whole, lows_[i]);
    for (std::size_t i = end; i-- > whole;) coder.part(i - whole, parts_[i]);
    coder.steps(parts_.data() + first, lows_.empty() ? nullptr : lows_.data() + first, steps);
    end = first;
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
