#include "codec/lanes/classes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "base/parallel.h"
#include "codec/lanes/blocks.h"
#include "codec/lanes/encode_steps.h"

namespace gbcompress::codec::lanes {
namespace {

constexpr int kUnit = 12;                                  ///< binary places of means
constexpr std::uint64_t kTrustLine = 4, kTrustColumn = 8;  ///< values that say all are alike
constexpr std::uint64_t kLeastSum = 4;                     ///< of a line, 2^-kUnit
/// What a class takes, in 1/256 bits: flags are set where classes save more.
constexpr std::int64_t kClassBits = 4 * 256;

/// Binary logarithms of max(x, 1), in units of 2^-16, rounded down. Several at once: each is a
/// chain of products that wait for each other.
template <std::size_t n>
std::array<std::int64_t, n> logs_of(const std::array<std::uint64_t, n>& numbers) {
  std::array<std::uint64_t, n> m{};
  std::array<std::int64_t, n> logs{};
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint64_t x = std::max<std::uint64_t>(numbers[k], 1);
    const int top = 63 - std::countl_zero(x);
    m[k] = top >= 31 ? x >> (top - 31) : x << (31 - top);
    logs[k] = top;
  }
  for (int i = 0; i < 16; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      m[k] = m[k] * m[k] >> 31;
      const std::uint64_t bit = m[k] >> 32;
      logs[k] = 2 * logs[k] + static_cast<std::int64_t>(bit);
      m[k] >>= bit;
    }
  return logs;
}

/// 3 log2(sum / count), rounded.
int thirds(std::uint64_t sum, std::uint64_t count) {
  const auto [of_sum, of_count] = logs_of<2>({sum, count});
  return static_cast<int>((kPerOctave * (of_sum - of_count) + (1 << 15)) >> 16);
}

/// 2^(c / 3 - 5), in units of 2^-kUnit.
std::uint64_t mean_of(int cls) {
  constexpr std::array<std::uint64_t, 3> kRoots = {65536, 82570, 104032};
  return kRoots[static_cast<std::size_t>(cls % 3)] << (cls / 3) >> (16 + 5 - kUnit);
}

/// Entropy of a two-sided geometric distribution with the mean magnitude sum / count, times count,
/// in 1/256 bits.
std::int64_t entropy(std::uint64_t sum, std::uint64_t count) {
  if (sum == 0 || count == 0) return 0;
  const auto times = [](std::uint64_t n, std::int64_t log) {
    return static_cast<__int128>(n) * log >> 8;
  };
  // (n + s) log(n + s) - n log n - s log s, and a sign for each of n s / (n + s) values.
  const auto [of_both, of_count, of_sum] = logs_of<3>({sum + count, count, sum});
  return static_cast<std::int64_t>(times(sum + count, of_both) - times(count, of_count) -
                                   times(sum, of_sum) +
                                   256 * static_cast<__int128>(sum) * count / (sum + count));
}

/// Sums of magnitudes of lines, and of columns in each block.
struct Sums {
  std::vector<std::uint64_t> lines, columns;
  std::vector<std::uint64_t> blocks;
  std::uint64_t all = 0;

  Sums(const Shape& shape, const Blocks& source, int threads)
      : lines(static_cast<std::size_t>(shape.lines)),
        columns(static_cast<std::size_t>(shape.blocks() * shape.width)),
        blocks(static_cast<std::size_t>(shape.blocks())) {
    for_parts(shape, source, parts_for(shape, threads),
              [&](std::int64_t, std::int64_t block, std::span<const std::int32_t> values) {
                add_block(shape, block, values);
              });
    for (const std::uint64_t sum : blocks) all += sum;
  }

 private:
  void add_block(const Shape& shape, std::int64_t block, std::span<const std::int32_t> values) {
    const std::int64_t begin = block * shape.block_lines;
    const std::int64_t end = std::min(shape.lines, begin + shape.block_lines);
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t first = line * shape.width;
      const std::uint64_t sum =
          add_magnitudes(values.data() + (first - shape.first(block)),
                         static_cast<std::size_t>(std::min(shape.width, shape.values - first)),
                         columns.data() + block * shape.width);
      lines[static_cast<std::size_t>(line)] = sum;
      blocks[static_cast<std::size_t>(block)] += sum;
    }
  }
};

std::uint64_t line_size(const Shape& shape, std::int64_t line) {
  return static_cast<std::uint64_t>(std::min(shape.width, shape.values - line * shape.width));
}

void set_lines(const Shape& shape, const Sums& sums, Classes& classes) {
  const auto n = static_cast<std::uint64_t>(shape.values);
  const std::uint64_t mean = (sums.all << kUnit) / n;
  const auto class_of = [&](std::uint64_t sum, std::uint64_t count) {
    return std::clamp(
        thirds((sum << kUnit) + kTrustLine * mean + kLeastSum, (count + kTrustLine) << kUnit) -
            kLeastClass,
        0, kClasses - 1);
  };
  classes.center = class_of(sums.all, n);
  classes.lines.assign(static_cast<std::size_t>(shape.lines),
                       static_cast<std::int8_t>(classes.center));
  std::int64_t saved = entropy(sums.all, n) - kClassBits * shape.lines;
  for (std::int64_t line = 0; line < shape.lines; ++line)
    saved -= entropy(sums.lines[static_cast<std::size_t>(line)], line_size(shape, line));
  classes.by_line = shape.lines > 1 && saved > 0;
  if (!classes.by_line) return;
  for (std::int64_t line = 0; line < shape.lines; ++line)
    classes.lines[static_cast<std::size_t>(line)] = static_cast<std::int8_t>(
        class_of(sums.lines[static_cast<std::size_t>(line)], line_size(shape, line)));
}

/// What the lines' classes say of the sum of a column, 2^-kUnit, in lines [first, end).
std::uint64_t expected_sum(const Classes& classes, std::int64_t first, std::int64_t end) {
  std::uint64_t sum = 0;
  for (std::int64_t line = first; line < end; ++line)
    sum += mean_of(classes.lines[static_cast<std::size_t>(line)]);
  return sum;
}

/// Classes of columns from their sums in lines [first, end). @return bits that they save, 1/256
std::int64_t set_block(const Shape& shape, const Classes& classes,
                       std::span<const std::uint64_t> sums, std::int64_t first, std::int64_t end,
                       std::int8_t* columns) {
  const auto count = static_cast<std::uint64_t>(end - first);
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  const auto width = static_cast<std::uint64_t>(shape.width);
  const std::uint64_t expected = expected_sum(classes, first, end),
                      trust = kTrustColumn * expected / count;
  std::int64_t saved = entropy(all, count * width) - kClassBits * shape.width;
  for (const std::uint64_t sum : sums) {
    saved -= entropy(sum, count);
    *columns++ = static_cast<std::int8_t>(
        std::clamp(thirds((sum << kUnit) + trust, expected + trust), 1 - kClasses, kClasses - 1));
  }
  return saved;
}

void set_columns(const Shape& shape, const Sums& sums, Classes& classes, int threads) {
  if (shape.lines < 2) return;
  const auto width = static_cast<std::size_t>(shape.width);
  std::vector<std::uint64_t> together(width);
  for (std::size_t i = 0; i < sums.columns.size(); ++i) together[i % width] += sums.columns[i];
  Classes once = classes;
  once.columns.resize(width);
  const std::int64_t saved = set_block(shape, once, together, 0, shape.lines, once.columns.data());
  if (saved > 0) {
    once.by_column = true;
    classes = once;
  } else {
    once.columns.clear();
  }
  if (shape.blocks() < 2) return;
  Classes each = once;
  each.columns.assign(sums.columns.size(), 0);
  each.by_column = each.by_block = true;
  // Under the entropy of a block's own mean, what one list of columns saves there is less.
  std::int64_t blocks_saved = 0,
               blocks_mean = entropy(sums.all, static_cast<std::uint64_t>(shape.values));
  std::vector<std::int64_t> saved_by(sums.blocks.size());
  parallel_tasks(threads, shape.blocks(), [&](std::int64_t block) {
    const std::size_t at = static_cast<std::size_t>(block) * width;
    const std::int64_t first = block * shape.block_lines;
    saved_by[static_cast<std::size_t>(block)] =
        set_block(shape, each, std::span(sums.columns).subspan(at, width), first,
                  std::min(shape.lines, first + shape.block_lines), each.columns.data() + at);
  });
  for (std::int64_t block = 0; block < shape.blocks(); ++block) {
    const auto b = static_cast<std::size_t>(block);
    blocks_saved += saved_by[b];
    blocks_mean -= entropy(sums.blocks[b], static_cast<std::uint64_t>(shape.size(block)));
  }
  // Lines know most of how blocks differ.
  if (!classes.by_line) blocks_saved += blocks_mean;
  if (blocks_saved > std::max<std::int64_t>(saved, 0)) classes = each;
}

}  // namespace

Classes find_classes(const Shape& shape, const Blocks& blocks, int threads) {
  Classes classes;
  const Sums sums(shape, blocks, threads);
  set_lines(shape, sums, classes);
  set_columns(shape, sums, classes, threads);
  return classes;
}

}  // namespace gbcompress::codec::lanes
