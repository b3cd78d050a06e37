#include "quantize/levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "artifact/sections/levels.h"
#include "artifact/sections/line_prediction.h"
#include "quantize/factors.h"
#include "quantize/palette.h"

namespace gbcompress {
namespace {

/// Blocks that are looked at before all of them.
constexpr std::int64_t kSampledBlocks = 12;
/// Sides of blocks along rows that share a factor, beside whole rows and the last side.
constexpr std::array<std::int64_t, 5> kBlockSides = {256, 128, 64, 32, 16};
constexpr std::int64_t kLeastBlock = 16;
/// Bits of a factor in a file: its sign and exponent are nearly known.
constexpr double kFactorBits = 27;

double entropy_bits(std::span<const LevelTable::Level> levels, double total) {
  double bits = 0;
  for (const auto& level : levels)
    if (level.count > 0)
      bits +=
          static_cast<double>(level.count) * std::log2(total / static_cast<double>(level.count));
  return bits;
}

struct FactorBlock {
  std::int64_t rows = 0, cols = 0;
};

/// From those of the fewest factors on.
std::vector<FactorBlock> likely_blocks(const IntegerGrid& grid,
                                       const std::vector<std::int64_t>& shape) {
  std::vector<FactorBlock> blocks;
  const auto add = [&](std::int64_t rows, std::int64_t cols) {
    if (rows * cols >= kLeastBlock && rows * cols < grid.size()) blocks.push_back({rows, cols});
  };
  if (shape.size() == 2) add(grid.rows, 1);
  add(1, grid.cols);
  if (shape.size() > 2 && shape.back() < grid.cols) add(1, shape.back());
  for (const std::int64_t side : kBlockSides)
    if (side < grid.cols) add(1, side);
  std::ranges::stable_sort(blocks, [](const FactorBlock& a, const FactorBlock& b) {
    return a.rows * a.cols > b.rows * b.cols;
  });
  return blocks;
}

/// The values of one block.
void take_block(const FactorBlock& block, const IntegerGrid& grid, std::int64_t index,
                std::span<const float> values, std::vector<float>& taken) {
  const std::int64_t across = (grid.cols - 1) / block.cols + 1;
  const std::int64_t top = index / across * block.rows, left = index % across * block.cols;
  taken.clear();
  for (std::int64_t row = top; row < std::min(top + block.rows, grid.rows); ++row)
    for (std::int64_t col = left; col < std::min(left + block.cols, grid.cols); ++col)
      taken.push_back(values[static_cast<std::size_t>(row * grid.cols + col)]);
}

std::optional<float> factor_of_block(const FactorBlock& block, const IntegerGrid& grid,
                                     std::int64_t index, std::span<const float> values, DType dtype,
                                     std::vector<float>& taken) {
  take_block(block, grid, index, values, taken);
  const auto magnitudes = distinct_magnitudes(taken, static_cast<std::size_t>(kMostMultiple));
  if (!magnitudes || 2 * magnitudes->size() > taken.size()) return {};
  return common_factor(*magnitudes, dtype);
}

/// Of all blocks, or nothing.
std::optional<std::vector<float>> factors_of(const FactorBlock& block, const IntegerGrid& grid,
                                             std::span<const float> values, DType dtype) {
  const std::int64_t count =
      ((grid.rows - 1) / block.rows + 1) * ((grid.cols - 1) / block.cols + 1);
  std::vector<float> taken;
  const std::int64_t sampled = std::min(count, kSampledBlocks);
  for (std::int64_t i = 0; i < sampled; ++i)
    if (!factor_of_block(block, grid, i * count / sampled, values, dtype, taken)) return {};
  std::vector<float> factors;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto factor = factor_of_block(block, grid, i, values, dtype, taken);
    if (!factor) return {};
    factors.push_back(*factor);
  }
  return factors;
}

/// The integer that stands for a value.
std::int64_t level_of_value(float value, float factor, std::int64_t negative_zero) {
  if (value == 0 && std::signbit(value)) return negative_zero;
  const std::int64_t k = multiple_of(std::fabs(value), factor);
  return std::signbit(value) ? -k : k;
}

LevelTable table_of_factors(const LevelForm& form, const std::vector<float>& factors,
                            const IntegerGrid& grid, std::span<const float> values) {
  LevelTable table{.form = form};
  double squares = 0;
  for (const float factor : factors) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &factor, sizeof bits);
    table.numbers.push_back(bits);
    squares += static_cast<double>(factor) * static_cast<double>(factor);
  }
  // One more than the multiples stands for -0.
  std::array<std::int64_t, 2 * kMostMultiple + 2> counts{};
  std::size_t at = 0;
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t col = 0; col < grid.cols; ++col, ++at) {
      const float factor = factors[level_block(form, grid, row, col)];
      ++counts[static_cast<std::size_t>(level_of_value(values[at], factor, form.negative_zero) +
                                        kMostMultiple)];
    }
  const double unit = std::sqrt(squares / static_cast<double>(factors.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto k = static_cast<std::int64_t>(i) - kMostMultiple;
    const double multiple = k == form.negative_zero ? 0 : static_cast<double>(k);
    if (counts[i] > 0) table.levels.push_back({multiple * unit, counts[i]});
  }
  table.bits = entropy_bits(table.levels, static_cast<double>(values.size())) +
               kFactorBits * static_cast<double>(factors.size());
  return table;
}

/// One more than the largest multiple, where zeros have signs; else 0.
std::int64_t code_of_negative_zero(const LevelForm& form, const std::vector<float>& factors,
                                   const IntegerGrid& grid, std::span<const float> values) {
  std::int64_t most = 0;
  bool negative = false;
  std::size_t at = 0;
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t col = 0; col < grid.cols; ++col, ++at) {
      negative = negative || (values[at] == 0 && std::signbit(values[at]));
      most = std::max(
          most, multiple_of(std::fabs(values[at]), factors[level_block(form, grid, row, col)]));
    }
  return negative ? most + 1 : 0;
}

std::optional<LevelTable> find_factors(const TensorEntry& tensor, std::span<const float> values,
                                       bool zero_signs) {
  const IntegerGrid grid = default_grid(tensor.shape);
  // float32 has not all values of float64.
  if (tensor.dtype == DType::kF64 || grid.size() < 2 * kLeastBlock) return {};
  for (const FactorBlock& block : likely_blocks(grid, tensor.shape)) {
    const auto factors = factors_of(block, grid, values, tensor.dtype);
    if (!factors) continue;
    LevelForm form{.dtype = tensor.dtype, .block_rows = block.rows, .block_cols = block.cols};
    if (zero_signs) form.negative_zero = code_of_negative_zero(form, *factors, grid, values);
    return table_of_factors(form, *factors, grid, values);
  }
  return {};
}

std::optional<LevelTable> find_palette(const TensorEntry& tensor, bool zero_signs) {
  std::vector<PaletteEntry> entries = palette_of(tensor);
  // The table and the places of values that are hardly repeated tell as much as the values.
  if (entries.empty() ||
      2 * static_cast<std::int64_t>(entries.size()) > default_grid(tensor.shape).size())
    return {};
  if (!zero_signs) merge_zeros(entries);
  LevelTable table{
      .form = {.dtype = tensor.dtype, .palette = static_cast<std::int64_t>(entries.size())}};
  double middle = 0, total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    table.numbers.push_back(entries[i].element);
    table.levels.push_back({entries[i].value, entries[i].count});
    middle += static_cast<double>(i) * static_cast<double>(entries[i].count);
    total += static_cast<double>(entries[i].count);
  }
  table.offset = static_cast<int>(std::min(std::nearbyint(middle / total), 1.0 * kMaxStep));
  for (std::size_t i = 0; i < entries.size() && i <= kMaxStep; ++i)
    if (entries[i].value == 0) table.offset = static_cast<int>(i);
  table.bits = entropy_bits(table.levels, total) +
               static_cast<double>(dtype_bits(tensor.dtype) * table.form.palette);
  return table;
}

}  // namespace

std::optional<LevelTable> find_levels(const TensorEntry& tensor, std::span<const float> values,
                                      bool zero_signs) {
  std::optional<LevelTable> palette = find_palette(tensor, zero_signs);
  if (palette && palette->bits <= 2 * static_cast<double>(values.size())) return palette;
  std::optional<LevelTable> factors = find_factors(tensor, values, zero_signs);
  if (!factors || (palette && palette->bits <= factors->bits)) return palette;
  return factors;
}

std::optional<CodedValues> coded_levels(const LevelTable& table, const TensorEntry& tensor,
                                        std::span<const float> values) {
  CodedValues coded{.grid = default_grid(tensor.shape),
                    .step = table.offset,
                    .levels = table.form,
                    .level_table = level_table(table.form, table.numbers)};
  if (table.form.positions > 0) {
    auto residuals = line_residuals(table.form, table.numbers, tensor.bytes);
    if (!residuals) return {};
    coded.integers = *std::move(residuals);
  } else if (table.form.palette > 0) {
    coded.integers = palette_indices(table.numbers, tensor, table.offset);
  } else {
    std::vector<float> factors(table.numbers.size());
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const auto bits = static_cast<std::uint32_t>(table.numbers[i]);
      std::memcpy(&factors[i], &bits, sizeof bits);
    }
    for (std::int64_t row = 0; row < coded.grid.rows; ++row)
      for (std::int64_t col = 0; col < coded.grid.cols; ++col)
        coded.integers.push_back(static_cast<std::int32_t>(level_of_value(
            values[coded.integers.size()], factors[level_block(table.form, coded.grid, row, col)],
            table.form.negative_zero)));
  }
  if (!is_same_but_zeros(level_elements(coded), tensor)) return {};
  return coded;
}

CodedValues in_order_of_frequency(const CodedValues& coded, const LevelTable& table) {
  const std::size_t n = table.numbers.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return table.levels[i].count; });
  CodedValues moved = coded;
  moved.step = static_cast<int>(std::min<std::size_t>(n / 2, kMaxStep));
  // 0, 1, -1, 2, ...: the most frequent ones are the smallest.
  std::vector<std::int32_t> integer_of(n);
  std::vector<std::uint64_t> numbers(n);
  std::int64_t k = 0;
  for (const std::size_t level : order) {
    std::int64_t place;
    do {
      place = moved.step + (k % 2 != 0 ? (k + 1) / 2 : -k / 2);
      ++k;
    } while (place < 0 || place >= static_cast<std::int64_t>(n));
    numbers[static_cast<std::size_t>(place)] = table.numbers[level];
    integer_of[level] = static_cast<std::int32_t>(place - moved.step);
  }
  for (std::int32_t& integer : moved.integers)
    integer = integer_of[static_cast<std::size_t>(integer + coded.step)];
  moved.level_table = level_table(table.form, numbers);
  return moved;
}

double rounded_bits(const LevelTable& table, double step) {
  double squares = 0, total = 0;
  for (const auto& level : table.levels) {
    squares += static_cast<double>(level.count) * level.value * level.value;
    total += static_cast<double>(level.count);
  }
  const double unit = step * std::sqrt(squares / total);
  if (!(unit > 0) || !std::isfinite(unit)) return entropy_bits(table.levels, total);
  std::map<double, std::int64_t> merged;
  for (const auto& level : table.levels) merged[std::nearbyint(level.value / unit)] += level.count;
  std::vector<LevelTable::Level> levels;
  levels.reserve(merged.size());
  for (const auto& [value, count] : merged) levels.push_back({value, count});
  return entropy_bits(levels, total);
}

}  // namespace gbcompress
