#include "artifact/sections/levels.h"

#include <cstring>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/line_prediction.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr int kNibbleMiddle = 8;

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size - 1) / part + 1; }

/// Nibbles of a number of the table.
std::int64_t number_nibbles(const LevelForm& form) {
  return form.palette > 0 ? dtype_bits(form.dtype) / 4 : 2 * std::int64_t{sizeof(float)};
}

[[noreturn]] void corrupt(const char* what) {
  throw Error(Errc::kCorrupt, std::string("a tensor has ") + what);
}

/// The numbers of the table.
std::vector<std::uint64_t> numbers_of_table(const CodedValues& values) {
  const IntegerGrid grid = level_grid(values.levels, values.grid);
  const auto count = static_cast<std::size_t>(grid.cols);
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < values.level_table.size(); ++i) {
    const std::int32_t nibble = values.level_table[i] + kNibbleMiddle;
    if (nibble < 0 || nibble > 15) corrupt("a table of what are no nibbles");
    numbers[i % count] = numbers[i % count] << 4 | static_cast<std::uint64_t>(nibble);
  }
  return numbers;
}

std::vector<std::byte> from_palette(const CodedValues& values) {
  const std::vector<std::uint64_t> numbers = numbers_of_table(values);
  const auto size = static_cast<std::size_t>(number_nibbles(values.levels) / 2);
  std::vector<std::byte> bytes(values.integers.size() * size);
  for (std::size_t i = 0; i < values.integers.size(); ++i) {
    const std::int64_t index = std::int64_t{values.integers[i]} + values.step;
    if (index < 0 || index >= values.levels.palette) corrupt("a level that its table lacks");
    std::memcpy(bytes.data() + i * size, &numbers[static_cast<std::size_t>(index)], size);
  }
  return bytes;
}

/// The float32 that a multiple stands for.
float multiple(std::int64_t k, std::int64_t negative_zero) {
  return k == negative_zero && k != 0 ? -0.0F : static_cast<float>(k);
}

std::vector<std::byte> from_factors(const CodedValues& values) {
  std::vector<float> factors;
  for (const std::uint64_t number : numbers_of_table(values)) {
    const auto bits = static_cast<std::uint32_t>(number);
    float& factor = factors.emplace_back();
    std::memcpy(&factor, &bits, sizeof factor);
  }
  const LevelForm& form = values.levels;
  std::vector<float> floats(values.integers.size());
  std::size_t at = 0;
  for (std::int64_t row = 0; row < values.grid.rows; ++row)
    for (std::int64_t first = 0; first < values.grid.cols; first += form.block_cols) {
      const float factor = factors[level_block(form, values.grid, row, first)];
      const std::int64_t left = values.grid.cols - first;
      for (std::int64_t n = left < form.block_cols ? left : form.block_cols; n > 0; --n, ++at)
        floats[at] =
            multiple(std::int64_t{values.integers[at]} + values.step, form.negative_zero) * factor;
    }
  return elements_of(floats, form.dtype);
}

}  // namespace

LevelForm level_form(std::span<const std::int64_t> numbers, DType dtype) noexcept {
  LevelForm form{.dtype = dtype};
  if (numbers.size() == 1) {
    form.palette = numbers[0];
  } else if (numbers.size() == 2) {
    form.positions = numbers[0];
    form.stride = numbers[1];
  } else if (numbers.size() == 3) {
    form.block_rows = numbers[0];
    form.block_cols = numbers[1];
    form.negative_zero = numbers[2];
  }
  return form;
}

bool fits_levels(const LevelForm& form, const IntegerGrid& grid, DType dtype) noexcept {
  if (!is_real(dtype) || form.dtype != dtype || grid.dependent || grid.wide) return false;
  const bool blocks = form.block_rows != 0 || form.block_cols != 0 || form.negative_zero != 0;
  const bool lines = form.positions != 0 || form.stride != 0;
  if (form.palette != 0)
    return form.palette > 0 && form.palette <= kMaxPalette && !blocks && !lines;
  if (lines) return !blocks && fits_lines(form.positions, form.stride, grid.size(), dtype);
  return form.block_rows >= 1 && form.block_rows <= grid.rows && form.block_cols >= 1 &&
         form.block_cols <= grid.cols && form.negative_zero >= 0 &&
         form.negative_zero <= kMaxMagnitude;
}

IntegerGrid level_grid(const LevelForm& form, const IntegerGrid& grid) noexcept {
  const std::int64_t count =
      form.palette > 0     ? form.palette
      : form.positions > 0 ? kLineNumbers * (grid.size() / form.positions)
                           : parts(grid.rows, form.block_rows) * parts(grid.cols, form.block_cols);
  return {number_nibbles(form), count, 0};
}

std::vector<std::int32_t> level_table(const LevelForm& form,
                                      std::span<const std::uint64_t> numbers) {
  std::vector<std::int32_t> table;
  for (std::int64_t nibble = number_nibbles(form) - 1; nibble >= 0; --nibble)
    for (const std::uint64_t number : numbers)
      table.push_back(static_cast<std::int32_t>(number >> (4 * nibble) & 15) - kNibbleMiddle);
  return table;
}

std::size_t level_block(const LevelForm& form, const IntegerGrid& grid, std::int64_t row,
                        std::int64_t col) noexcept {
  return static_cast<std::size_t>(row / form.block_rows * parts(grid.cols, form.block_cols) +
                                  col / form.block_cols);
}

void check_levels(const CodedValues& values, const std::string& label) {
  const LevelForm& form = values.levels;
  const bool plain = values.mantissa_bits == 0 && values.row_steps.empty() && !values.nibbles &&
                     values.axis < 0 && !values.on_base;
  if (!plain || !fits_levels(form, values.grid, form.dtype) ||
      static_cast<std::int64_t>(values.level_table.size()) != level_grid(form, values.grid).size())
    throw Error(Errc::kUsage, label + " has levels that do not fit");
}

std::vector<std::byte> level_elements(const CodedValues& values) {
  check_levels(values, "the values");
  if (values.levels.palette > 0) return from_palette(values);
  if (values.levels.positions > 0)
    return from_line_residuals(values.levels, numbers_of_table(values), values.integers);
  return from_factors(values);
}

}  // namespace gbcompress
