#include "codec/lanes/head.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

namespace gbcompress::codec::lanes {
namespace {

[[noreturn]] void corrupt(const char* what) {
  throw Error(Errc::kCorrupt,
              std::string("the head of a lanes stream ") + what + "; get the file again");
}

/// The probability of a bit from how often it was one.
class Chance {
 public:
  std::uint32_t p() const { return 65536 * (2 * ones_ + 1) / (2 * seen_ + 2); }
  void learn(bool bit) {
    ones_ += bit;
    if (++seen_ < 1024) return;
    seen_ /= 2;
    ones_ /= 2;
  }

 private:
  std::uint32_t ones_ = 0, seen_ = 0;
};

/// Contexts of a number: how many bits it has.
using Lengths = std::array<Chance, 24>;

/// Contexts of the classes of lines, or of those of columns.
struct ClassChances {
  std::array<Chance, 9> zero;
  std::array<Chance, 3> negative;
  std::array<std::array<Chance, 12>, 2> more;
};

/// The same steps for both directions: an encoder codes the bit that it is given, a decoder ignores
/// that and returns the bit that it reads.
template <typename Coder>
class HeadCoder {
 public:
  explicit HeadCoder(Coder coder) : coder_(std::move(coder)) {}
  Coder& coder() { return coder_; }

  bool flag(bool bit, Chance& chance) {
    bit = coder_.code(bit, chance.p());
    chance.learn(bit);
    return bit;
  }

  std::uint32_t number(std::uint32_t value, Lengths& lengths, std::uint32_t most) {
    const auto length = static_cast<std::uint32_t>(std::bit_width(value + 1) - 1);
    std::uint32_t bits = 0;
    while (flag(bits < length, lengths[bits]))
      if (++bits == lengths.size()) corrupt("has a number that is too large");
    std::uint32_t low = 0;
    for (std::uint32_t i = bits; i-- > 0;)
      low = 2 * low + coder_.code((value + 1) >> i & 1, 1u << 15);
    const std::uint32_t result = (1u << bits) - 1 + low;
    if (result > most) corrupt("has a number out of range");
    return result;
  }

  void set(TableSet& tables) {
    tables.dependent = flag(tables.dependent, dependent_);
    tables.used.resize(tables.size());
    tables.widths.resize(tables.size());
    bool before = false;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      before = tables.used[t] = flag(tables.used[t], used_[before]);
      if (before) widths(tables.widths[t]);
    }
  }

  void grid(const Shape& shape, std::uint32_t sets, GridHead& head) {
    Classes& classes = head.classes;
    head.set = number(head.set, sets_, sets - 1);
    classes.by_line = flag(classes.by_line, by_line_);
    classes.by_column = flag(classes.by_column, by_column_);
    if (classes.by_column) classes.by_block = flag(classes.by_block, by_block_);
    classes.center = static_cast<int>(
        number(static_cast<std::uint32_t>(classes.center), centers_, kClasses - 1));
    if (classes.by_line)
      list(classes.lines, shape.lines, classes.center, 0, kClasses - 1, lines_);
    else
      classes.lines.assign(static_cast<std::size_t>(shape.lines),
                           static_cast<std::int8_t>(classes.center));
    if (!classes.by_column) return;
    const std::int64_t blocks = classes.by_block ? shape.blocks() : 1;
    list(classes.columns, blocks * shape.width, 0, 1 - kClasses, kClasses - 1, columns_);
  }

  Lengths& counts() { return set_counts_; }

 private:
  void widths(Widths& widths) {
    const auto extent = [&](bool negative) {
      int reach = kSpan;
      while (reach > 0 &&
             widths[static_cast<std::size_t>(symbol_of(negative ? -reach : reach))] == 0)
        --reach;
      return static_cast<int>(number(static_cast<std::uint32_t>(reach), reaches_, kSpan));
    };
    const int low = extent(true), high = extent(false);
    std::uint32_t left = kWholeTable;
    const auto width = [&](int symbol, std::uint32_t beside, std::uint32_t least) {
      std::uint16_t& place = widths[static_cast<std::size_t>(symbol)];
      const auto chances = static_cast<std::size_t>(std::bit_width(beside));
      const std::uint32_t given = place > least ? place - least : 0;
      if (left < least) corrupt("has a table of more than 2^11 parts");
      const std::uint32_t found = least + number(given, widths_[chances], left - least);
      left -= found;
      place = static_cast<std::uint16_t>(found);
      return found;
    };
    width(0, 0, 1);
    width(1, 0, 1);
    std::uint32_t beside = width(symbol_of(0), 2047, 0);
    for (int k = 1; k <= std::max(low, high); ++k) {
      if (k <= low) beside = width(symbol_of(-k), beside, 0);
      if (k <= high) beside = width(symbol_of(k), beside, 0);
    }
    if (left != 0) corrupt("has a table of less than 2^11 parts");
  }

  void list(std::vector<std::int8_t>& classes, std::int64_t count, int center, int least, int most,
            ClassChances& chances) {
    classes.resize(static_cast<std::size_t>(count));
    int last = 0, before = 0;
    for (std::int8_t& cls : classes) {
      const int found = beside(cls - center, last, before, chances);
      if (found + center < least || found + center > most) corrupt("has a class out of range");
      cls = static_cast<std::int8_t>(found + center);
      before = last;
      last = found;
    }
  }

  int beside(int value, int last, int before, ClassChances& chances) {
    const int a = std::min(std::abs(last), 2), b = std::min(std::abs(before), 2);
    if (!flag(value != 0, chances.zero[static_cast<std::size_t>(3 * a + b)])) return 0;
    const bool negative =
        flag(value < 0, chances.negative[static_cast<std::size_t>((last > 0) - (last < 0) + 1)]);
    auto& more = chances.more[std::abs(last) + std::abs(before) > 2];
    int size = 1;
    while (flag(std::abs(value) > size,
                more[std::min<std::size_t>(static_cast<std::size_t>(size) - 1, 11)]))
      if (++size == 2 * kClasses) corrupt("has a class out of range");
    return negative ? -size : size;
  }

  Coder coder_;
  Lengths set_counts_, sets_, reaches_, centers_;
  std::array<Lengths, 13> widths_;
  std::array<Chance, 2> used_;
  Chance dependent_, by_line_, by_column_, by_block_;
  ClassChances lines_, columns_;
};

}  // namespace

struct HeadWriter::Impl {
  HeadCoder<BinaryEncoder> coder{BinaryEncoder()};
  std::vector<TableSet> sets;
};

HeadWriter::HeadWriter(std::span<const TableSet> sets) : impl_(std::make_unique<Impl>()) {
  impl_->sets.assign(sets.begin(), sets.end());
  auto& coder = impl_->coder;
  coder.number(static_cast<std::uint32_t>(sets.size()), coder.counts(), kMostSets);
  for (TableSet& set : impl_->sets) coder.set(set);
}
HeadWriter::~HeadWriter() = default;

void HeadWriter::add(const Shape& shape, bool, const GridHead& grid) {
  GridHead copy = grid;
  impl_->coder.grid(shape, static_cast<std::uint32_t>(impl_->sets.size()), copy);
}

std::vector<std::byte> HeadWriter::finish() { return impl_->coder.coder().finish(); }

struct HeadReader::Impl {
  explicit Impl(std::span<const std::byte> bytes) : coder(BinaryDecoder(bytes)) {}
  HeadCoder<BinaryDecoder> coder;
  std::vector<TableSet> sets;
};

HeadReader::HeadReader(std::span<const std::byte> bytes) : impl_(std::make_unique<Impl>(bytes)) {
  auto& coder = impl_->coder;
  const std::uint32_t sets = coder.number(0, coder.counts(), kMostSets);
  for (std::uint32_t i = 0; i < sets; ++i) coder.set(impl_->sets.emplace_back());
}
HeadReader::~HeadReader() = default;

const std::vector<TableSet>& HeadReader::sets() const { return impl_->sets; }

GridHead HeadReader::read(const Shape& shape, bool dependent) {
  if (impl_->sets.empty()) corrupt("has no tables");
  GridHead head;
  impl_->coder.grid(shape, static_cast<std::uint32_t>(impl_->sets.size()), head);
  if (impl_->sets[head.set].dependent != dependent)
    corrupt("gives a grid the tables of another kind");
  return head;
}

void HeadReader::finish() const {
  if (!impl_->coder.coder().at_end()) corrupt("continues after its last class");
}

}  // namespace gbcompress::codec::lanes
