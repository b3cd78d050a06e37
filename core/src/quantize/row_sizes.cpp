#include "quantize/row_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gbcompress {
namespace {

/// Values that may be outliers, in root mean squares of all that are left: so far away few are.
constexpr double kFar = 6;
/// Blocks of columns that may have steps of their own, and the columns of one, at least.
constexpr std::int64_t kMostBlocks = 16, kLeastColumns = 16;
/// Mean squares of blocks: below this share of the mean of all one is small; within this factor two
/// are alike.
constexpr double kSmallBlock = 1.0 / 64, kAlike = 8;
/// Outliers of one size hide those of the next.
constexpr int kRounds = 8;

double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

/// The values of a row whose magnitude is below a bound.
struct Left {
  double squares = 0, count = 0;
  float largest = 0;
};
Left left_below(std::span<const float> row, double bound) {
  Left left;
  for (const float value : row) {
    const float magnitude = std::fabs(value);
    if (static_cast<double>(magnitude) >= bound) continue;
    left.squares += square(magnitude);
    ++left.count;
    left.largest = std::max(left.largest, magnitude);
  }
  return left;
}

Left all_of(std::span<const float> row) {
  double sums[4] = {};
  float largest[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= row.size(); i += 4)
    for (std::size_t k = 0; k < 4; ++k) {
      sums[k] += square(row[i + k]);
      largest[k] = std::max(largest[k], std::fabs(row[i + k]));
    }
  const Left rest = left_below(row.subspan(i), HUGE_VAL);
  return {sums[0] + sums[1] + (sums[2] + sums[3]) + rest.squares, static_cast<double>(row.size()),
          std::max(*std::max_element(largest, largest + 4), rest.largest)};
}

/// The least magnitude of an outlier, or infinity.
/// @param reach  squares from here on may be those of outliers
/// @param bound  of magnitudes
double least_outlier(std::span<const float> row, double reach, double bound) {
  std::vector<float> far;
  double others = 0, count = 0;  // squares of the smaller values, and how many
  for (const float value : row) {
    const float magnitude = std::fabs(value);
    if (static_cast<double>(magnitude) >= bound) continue;
    if (square(magnitude) >= reach) {
      far.push_back(magnitude);
      continue;
    }
    others += square(magnitude);
    ++count;
  }
  std::sort(far.begin(), far.end());
  for (const float magnitude : far) {
    if (others > 0 && square(magnitude) >= kOutlier * kOutlier * others / count)
      return static_cast<double>(magnitude);
    others += square(magnitude);
    ++count;
  }
  return HUGE_VAL;
}

}  // namespace

RowSize size_of_row(std::span<const float> row) {
  Left left = all_of(row);
  RowSize size{.squares = left.squares, .largest = left.largest};
  double bound = HUGE_VAL;
  for (int round = 0; round < kRounds && left.squares > 0; ++round) {
    // Few values: one of them may be as large as all together.
    const double reach = std::min(kFar * kFar, 0.9 * left.count) * left.squares / left.count;
    if (square(left.largest) < reach) break;
    bound = least_outlier(row, reach, bound);
    if (bound == HUGE_VAL) break;
    left = left_below(row, bound);
  }
  size.rms = left.count > 0 ? std::sqrt(left.squares / left.count) : 0;
  return size;
}

std::vector<RowSize> sizes_of_rows(const IntegerGrid& grid, std::span<const float> values) {
  std::vector<RowSize> sizes;
  const auto cols = static_cast<std::size_t>(grid.cols);
  for (std::size_t row = 0; row < static_cast<std::size_t>(grid.rows); ++row)
    sizes.push_back(size_of_row(values.subspan(row * cols, cols)));
  return sizes;
}

double rms_of(std::span<const RowSize> rows) {
  double sum = 0;
  for (const RowSize& row : rows) sum += row.rms * row.rms;
  return std::sqrt(sum / static_cast<double>(rows.size()));
}

std::vector<RowSize> sizes_of_cosines(std::vector<RowSize> sizes, const IntegerGrid& grid,
                                      std::span<const float> cosines, bool across) {
  double least = 0;  // of rows that are not 0
  for (const RowSize& size : sizes)
    if (size.rms > 0 && (least == 0 || size.rms < least)) least = size.rms;
  const auto cols = static_cast<std::size_t>(grid.cols);
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    const Left all = all_of(cosines.subspan(row * cols, cols));
    const double of_values = across ? least : sizes[row].rms;
    sizes[row] = {all.squares > 0 ? of_values : 0, all.squares, all.largest};
  }
  return sizes;
}

namespace {

/// Squares of columns, without outliers of rows or with them.
std::vector<double> column_squares(const IntegerGrid& grid, std::span<const float> values,
                                   bool without_outliers) {
  const auto cols = static_cast<std::size_t>(grid.cols);
  std::vector<double> squares(cols);
  for (std::size_t first = 0; first < values.size(); first += cols) {
    const auto row = values.subspan(first, cols);
    if (!without_outliers) {
      for (std::size_t j = 0; j < cols; ++j) squares[j] += square(row[j]);
      continue;
    }
    const double most = kOutlier * size_of_row(row).rms;
    const double bound = most * most;
    for (std::size_t j = 0; j < cols; ++j)
      if (square(row[j]) < bound) squares[j] += square(row[j]);
  }
  return squares;
}

/// The fewest even blocks of columns that tell the smallest apart; 1 where all are alike.
std::int64_t blocks_of(std::span<const double> squares) {
  const auto cols = static_cast<std::int64_t>(squares.size());
  // Mean square of the smallest of so many blocks that is not 0.
  const auto least = [&](std::int64_t blocks) {
    const std::size_t width = squares.size() / static_cast<std::size_t>(blocks);
    double smallest = HUGE_VAL;
    for (std::size_t first = 0; first < squares.size(); first += width) {
      const auto own = squares.subspan(first, width);
      const double sum = std::accumulate(own.begin(), own.end(), 0.0);
      if (sum > 0) smallest = std::min(smallest, sum / static_cast<double>(width));
    }
    return smallest;
  };
  std::vector<std::pair<std::int64_t, double>> divisions;
  double smallest = HUGE_VAL;
  for (std::int64_t blocks = 2; blocks <= kMostBlocks && blocks * kLeastColumns <= cols; ++blocks) {
    if (cols % blocks != 0) continue;
    divisions.emplace_back(blocks, least(blocks));
    smallest = std::min(smallest, divisions.back().second);
  }
  const double mean =
      std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(cols);
  if (!(smallest < kSmallBlock * mean)) return 1;
  for (const auto& [blocks, size] : divisions)
    if (size <= kAlike * smallest) return blocks;
  return 1;
}

}  // namespace

IntegerGrid divided(const IntegerGrid& grid, std::span<const float> values) {
  if (grid.rows < 2 || grid.cols < 2 * kLeastColumns) return grid;
  const std::vector<double> all = column_squares(grid, values, false);
  if (blocks_of(all) == 1) return grid;
  // Outliers make all blocks but their own small.
  const std::int64_t blocks = blocks_of(column_squares(grid, values, true));
  if (blocks == 1) return grid;
  IntegerGrid parts{grid.rows * blocks, grid.cols / blocks, 0};
  parts.lanes = grid.lanes;
  return parts;
}

std::vector<RowLoss> rows_beyond(const IntegerGrid& grid, std::span<const RowSize> sizes,
                                 std::span<const float> values, std::span<const float> stored,
                                 double most) {
  const auto cols = static_cast<std::size_t>(grid.cols);
  std::vector<RowLoss> rows;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    double error = 0;
    for (std::size_t i = row * cols; i < (row + 1) * cols; ++i)
      error += square(stored[i] - values[i]);
    const double squares = sizes[row].rms * sizes[row].rms * static_cast<double>(cols);
    if (!(error <= most * squares)) rows.push_back({row, error / squares});
  }
  return rows;
}

double worst_row(const IntegerGrid& grid, std::span<const float> values,
                 std::span<const float> stored) {
  const auto cols = static_cast<std::size_t>(grid.cols);
  double worst = 0;
  for (std::size_t first = 0; first < values.size(); first += cols) {
    const double rms = size_of_row(values.subspan(first, cols)).rms;
    double error = 0;
    for (std::size_t i = first; i < first + cols; ++i) error += square(stored[i] - values[i]);
    if (error == 0) continue;
    const double share = error / (rms * rms * static_cast<double>(cols));
    worst = std::max(worst, std::isfinite(share) ? share : HUGE_VAL);
  }
  return worst;
}

}  // namespace gbcompress
