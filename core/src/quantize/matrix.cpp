#include "quantize/matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "codec/trellis/quantizer_state.h"
#include "gbcompress/weights.h"
#include "quantize/row_steps.h"

namespace gbcompress {
namespace {

std::atomic<std::int64_t> values_chosen_so_far{0};

/// Rows of fewer numbers say too little about themselves.
constexpr std::int64_t kRowNumbers = 8;
/// A slice's steps grow with this power of its rms, as those of tensors do; beyond that many
/// octaves in proportion to it.
constexpr double kSlicePower = 0.75, kSliceOctaves = 10;
/// Steps over root mean squares of a row at which its error is some four tenths of its squares,
/// sixteenths of octaves.
constexpr int kCoarsestNearest = 17, kCoarsestTrellis = 25;
/// Error feedback may make a value four times as large: two octaves.
constexpr int kFeedbackRoom = 2 * kStepsPerOctave;
/// How often the steps of rows that lose too much are made finer.
constexpr int kFinerRowTries = 24;
/// How often columns are looked for that would be better as zeros.
constexpr int kColumnTries = 12;
/// Octaves between the largest row and those whose values have a unit of their own in memory.
constexpr int kMostOctaves = 60;
/// A product's rows have steps of (row's rms x scale)^(1/2); over the scale, that is this power of
/// the scale, halved for the geometric mean with steps that do not know it.
constexpr double kScalePower = 0.25;
/// A scale counts as at least this share of the largest.
constexpr double kLeastScale = 0.01;
/// The last side of a matrix of a stack: few kernels are so wide.
constexpr std::int64_t kLeastSide = 16;

/// Numbers that are rounded in one task.
constexpr std::size_t kTaskNumbers = std::size_t{1} << 18;

/// The nearest integers of whole rows, ties to even, and the squared error of each row.
void round_rows(std::span<const float> scaled, std::size_t cols, float size,
                std::span<std::int32_t> integers, std::span<double> errors) {
  // No step is so fine that magnitudes reach 2^22: adding it rounds to whole numbers.
  constexpr float kWhole = 12582912.f;
  const float inverse = 1 / size;
  for (std::size_t i = 0; i < scaled.size(); ++i)
    integers[i] = static_cast<std::int32_t>((scaled[i] * inverse + kWhole) - kWhole);
  for (std::size_t row = 0; row < errors.size(); ++row) {
    // Several sums side by side: one would wait for itself.
    constexpr std::size_t kSums = 8;
    double sums[kSums] = {};
    const auto add = [&](std::size_t i, double& sum) {
      const auto off = static_cast<double>(static_cast<float>(integers[i]) * size - scaled[i]);
      sum += off * off;
    };
    const std::size_t end = (row + 1) * cols;
    std::size_t i = row * cols;
    for (; i + kSums <= end; i += kSums)
      for (std::size_t k = 0; k < kSums; ++k) add(i + k, sums[k]);
    for (; i < end; ++i) add(i, sums[0]);
    errors[row] = std::accumulate(sums, sums + kSums, 0.0);
  }
}

/// log2 of the scales of rows over their geometric mean, so that the tensor's step stays; empty
/// where rows have none.
std::vector<double> centered_octaves(std::span<const float> scales, std::int64_t rows) {
  if (scales.empty() || static_cast<std::int64_t>(scales.size()) != rows) return {};
  const float largest = *std::max_element(scales.begin(), scales.end());
  if (!(largest > 0)) return {};
  std::vector<double> octaves;
  double sum = 0;
  for (const float scale : scales) {
    octaves.push_back(std::log2(std::max(static_cast<double>(scale / largest), kLeastScale)));
    sum += octaves.back();
  }
  for (double& octave : octaves) octave -= sum / static_cast<double>(rows);
  return octaves;
}

std::size_t first_nonzero(std::span<const float> values) {
  const auto at = std::find_if(values.begin(), values.end(), [](float v) { return v != 0; });
  return static_cast<std::size_t>(at - values.begin());
}

/// Values times 2^(sixteenths / 16).
void scale(std::span<float> values, int sixteenths) {
  const float root = step_size(sixteenths & 15);
  const int octaves = sixteenths >> 4;
  if (std::abs(octaves) < kMostOctaves) {
    const float factor = std::ldexp(root, octaves);
    for (float& value : values) value *= factor;
    return;
  }
  for (float& value : values)
    value = static_cast<float>(
        std::ldexp(static_cast<double>(value) * static_cast<double>(root), octaves));
}

/// The root mean square of the smallest column that is not 0.
float least_column(std::span<const float> values, std::size_t cols) {
  std::vector<float> squares(cols);
  for (std::size_t first = 0; first < values.size(); first += cols)
    for (std::size_t j = 0; j < cols; ++j) squares[j] += values[first + j] * values[first + j];
  float least = 0;
  for (const float sum : squares)
    if (sum > 0 && (least == 0 || sum < least)) least = sum;
  const std::size_t rows = values.size() / std::max<std::size_t>(cols, 1);
  return std::sqrt(least / static_cast<float>(rows));
}

/// The value that the next integer of a dependent grid stands for.
float next_value(codec::QuantizerStates& states, std::int32_t k, float size) {
  codec::QuantizerState& state = states.next();
  const float value = static_cast<float>(state.twice(k)) * (size / 2);
  state.pass(k);
  return value;
}

/// Offsets of the steps of slices, octaves.
double slice_octaves(double share) {
  const double octaves = std::log2(share);
  const double near = std::clamp(octaves, -kSliceOctaves, kSliceOctaves);
  return kSlicePower * near + (octaves - near);
}

}  // namespace

double squares_of(std::span<const float> values) {
  // Several sums side by side: one would wait for itself.
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  const auto square = [](float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  };
  std::size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums)
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += square(values[i + k]);
  for (; i < values.size(); ++i) sums[0] += square(values[i]);
  return std::accumulate(sums, sums + kSums, 0.0);
}

int step_below(double size) {
  const double k = std::floor(kStepsPerOctave * std::log2(size));
  return static_cast<int>(std::clamp<double>(k, kMinStep, kMaxStep));
}

int coarsest_of_row(double rms, Quantizer quantizer) {
  const int above = quantizer == Quantizer::kTrellis ? kCoarsestTrellis : kCoarsestNearest;
  return std::min(step_below(rms) + above, kMaxStep);
}

int finest_of_row(float largest) {
  // Half a step of room: quantizer 1 counts from there.
  return largest > 0 ? step_below(static_cast<double>(largest) / (kMaxMagnitude - 2)) + 1
                     : kMinStep;
}

/// What a step's integers are, and the squared error of each row in units of 2^unit.
struct StepMatrix::Attempt {
  CodedValues values;
  std::vector<double> errors;
};

StepMatrix::StepMatrix(IntegerGrid grid, std::vector<float> values,
                       std::vector<std::int32_t> row_steps, std::vector<RowSize> sizes)
    : grid_(grid),
      scaled_(std::move(values)),
      row_steps_(std::move(row_steps)),
      sizes_(std::move(sizes)) {
  const auto cols = static_cast<std::size_t>(grid_.cols);
  const auto row_of = [&](std::size_t row) { return std::span(scaled_).subspan(row * cols, cols); };
  const auto offset = [&](std::size_t row) { return row_steps_.empty() ? 0 : row_steps_[row]; };
  least_.assign(rows(), kMinStep);
  double largest = 0;
  finest_ = kMinStep;
  std::vector<RowSize> own;
  if (sizes_.empty()) own = sizes_of_rows(grid_, scaled_);
  const auto size_of = [&](std::size_t row) { return sizes_.empty() ? own[row] : sizes_[row]; };
  for (std::size_t row = 0; row < rows(); ++row) {
    const RowSize size = size_of(row);
    squares_ += size.squares;
    if (size.largest == 0) continue;
    least_[row] = finest_of_row(size.largest);
    finest_ = std::max(finest_, least_[row] - offset(row));
    largest = std::max(largest, static_cast<double>(size.largest) *
                                    std::exp2(-static_cast<double>(offset(row)) / kStepsPerOctave));
  }
  for (const std::int32_t step : row_steps_) finest_ = std::max(finest_, kMinStep - step);
  unit_ = largest > 0 ? std::ilogb(largest) : 0;
  for (std::size_t row = 0; row < rows(); ++row) {
    int by = -offset(row) - kStepsPerOctave * unit_;
    const double size = static_cast<double>(size_of(row).largest);
    const int octaves = size > 0 ? std::ilogb(size) + by / kStepsPerOctave : 0;
    if (octaves < -kMostOctaves) {
      lifts_.resize(rows());
      lifts_[row] = -kStepsPerOctave * octaves;
      by += lifts_[row];
    }
    if (by != 0) scale(row_of(row), by);
  }
  if (rows() > 1 && !sizes_.empty()) least_column_ = least_column(scaled_, cols);
}

std::vector<double> StepMatrix::row_weights(int step, std::span<const std::int32_t> steps) const {
  std::vector<double> weights(rows());
  for (std::size_t row = 0; row < rows(); ++row)
    weights[row] =
        std::exp2(2 * (unit_ + static_cast<double>(steps[row] - step) / kStepsPerOctave));
  return weights;
}

std::int64_t StepMatrix::values_chosen() noexcept { return values_chosen_so_far; }

/// Index of each row's step.
std::vector<std::int32_t> StepMatrix::steps_of_rows(int step,
                                                    std::span<const std::int32_t> limits) const {
  std::vector<std::int32_t> steps(rows());
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::int32_t own = std::min(step + (row_steps_.empty() ? 0 : row_steps_[row]), kMaxStep);
    steps[row] = std::max(std::min(own, limits[row]), least_[row]);
  }
  return steps;
}

/// The scaled values as they are at these steps of rows where all have the same step.
std::span<const float> StepMatrix::in_steps(int step, std::span<const std::int32_t> steps,
                                            std::vector<float>& copy) const {
  const auto cols = static_cast<std::size_t>(grid_.cols);
  for (std::size_t row = 0; row < rows(); ++row) {
    const int by = step + (row_steps_.empty() ? 0 : row_steps_[row]) - steps[row] -
                   (lifts_.empty() ? 0 : lifts_[row]);
    if (by == 0) continue;
    if (copy.empty()) copy = scaled_;
    scale(std::span(copy).subspan(row * cols, cols), by);
  }
  return copy.empty() ? std::span<const float>(scaled_) : std::span<const float>(copy);
}

StepMatrix::Attempt StepMatrix::attempt(int step, std::span<const std::int32_t> steps,
                                        Quantizer quantizer, int threads,
                                        const std::vector<bool>& dropped) const {
  values_chosen_so_far += static_cast<std::int64_t>(scaled_.size());
  std::vector<float> copy;
  std::span<const float> scaled = in_steps(step, steps, copy);
  const auto cols = static_cast<std::size_t>(grid_.cols);
  std::vector<double> left_out(rows());
  if (!dropped.empty()) {
    if (copy.empty()) copy = scaled_;
    for (std::size_t i = 0; i < copy.size(); ++i) {
      if (!dropped[i % cols]) continue;
      left_out[i / cols] += static_cast<double>(copy[i]) * static_cast<double>(copy[i]);
      copy[i] = 0;
    }
    scaled = copy;
  }
  Attempt result{{.grid = grid_, .step = step}, std::vector<double>(rows())};
  std::vector<double>& errors = result.errors;
  CodedValues& values = result.values;
  values.grid.dependent = quantizer == Quantizer::kTrellis;
  values.grid.lanes = grid_.lanes && values.grid.dependent;
  values.integers.resize(scaled.size());
  const int in_units = step - kStepsPerOctave * unit_;
  const float size = std::ldexp(step_size(in_units & 15), in_units >> 4);
  if (values.grid.dependent) {
    const Trellis trellis(values.grid, scaled);
    parallel_tasks(threads, trellis.parts(),
                   [&](std::int64_t part) { trellis.choose(part, size, values.integers); });
    codec::QuantizerStates states(values.grid);
    for (std::size_t row = 0, i = 0; row < rows(); ++row)
      for (const std::size_t end = i + cols; i < end; ++i) {
        const auto off =
            static_cast<double>(next_value(states, values.integers[i], size) - scaled[i]);
        errors[row] += off * off;
      }
  } else {
    const std::size_t each = std::max<std::size_t>(1, kTaskNumbers / cols);
    parallel_tasks(threads, static_cast<std::int64_t>((rows() + each - 1) / each),
                   [&](std::int64_t task) {
                     const std::size_t first = static_cast<std::size_t>(task) * each;
                     const std::size_t count = std::min(each, rows() - first);
                     round_rows(scaled.subspan(first * cols, count * cols), cols, size,
                                std::span(values.integers).subspan(first * cols, count * cols),
                                std::span(errors).subspan(first, count));
                   });
  }
  const std::vector<double> weights = row_weights(step, steps);
  for (std::size_t row = 0; row < rows(); ++row)
    errors[row] = (errors[row] + left_out[row]) * weights[row];
  return result;
}

/// Finer limits for rows that lose more than they may.
bool StepMatrix::tighten(const Attempt& attempt, std::span<const std::int32_t> steps,
                         std::vector<std::int32_t>& limits) const {
  bool any = false;
  for (std::size_t row = 0; row < sizes_.size(); ++row) {
    const double squares = sizes_[row].rms * sizes_[row].rms * static_cast<double>(grid_.cols);
    if (attempt.errors[row] <= kMostRelativeError * squares || steps[row] <= least_[row]) continue;
    limits[row] = std::max(least_[row], steps[row] - kFinerRow);
    any = true;
  }
  return any;
}

/// Columns that these integers make worse than zeros would, and those that are dropped already.
/// @return whether there are more than before
bool StepMatrix::drop_columns(const Attempt& attempt, int step, std::span<const std::int32_t> steps,
                              std::vector<bool>& dropped) const {
  const int in_units = step - kStepsPerOctave * unit_;
  const float size = std::ldexp(step_size(in_units & 15), in_units >> 4);
  // A column of larger values keeps most of its squares.
  if (least_column_ == 0 || least_column_ >= size) return false;
  std::vector<float> copy;
  const std::span<const float> scaled = in_steps(step, steps, copy);
  const auto cols = static_cast<std::size_t>(grid_.cols);
  const std::vector<double> weights = row_weights(step, steps);
  std::vector<double> gains(cols);  // squares less errors
  const bool dependent = attempt.values.grid.dependent;
  codec::QuantizerStates states(attempt.values.grid);
  for (std::size_t row = 0, i = 0; row < rows(); ++row)
    for (std::size_t j = 0; j < cols; ++j, ++i) {
      const double value = static_cast<double>(scaled[i]);
      const std::int32_t k = attempt.values.integers[i];
      const float stored = dependent ? next_value(states, k, size) : static_cast<float>(k) * size;
      const double off = static_cast<double>(stored) - value;
      gains[j] += (value * value - off * off) * weights[row];
    }
  bool more = false;
  for (std::size_t j = 0; j < cols; ++j) {
    if (gains[j] >= 0 || (!dropped.empty() && dropped[j])) continue;
    dropped.resize(cols);
    dropped[j] = more = true;
  }
  return more;
}

StepMatrix::Chosen StepMatrix::choose(int step, Quantizer quantizer, int threads) const {
  std::vector<std::int32_t> limits(rows(), kNoLimit);
  for (std::size_t row = 0; row < sizes_.size(); ++row)
    if (sizes_[row].largest > 0) limits[row] = coarsest_of_row(sizes_[row].rms, quantizer);
  std::vector<std::int32_t> steps = steps_of_rows(step, limits);
  Attempt made = attempt(step, steps, quantizer, threads);
  for (int tries = 0; tries < kFinerRowTries && tighten(made, steps, limits); ++tries) {
    steps = steps_of_rows(step, limits);
    made = attempt(step, steps, quantizer, threads);
  }
  std::vector<bool> dropped;
  for (int tries = 0; tries < kColumnTries && drop_columns(made, step, steps, dropped); ++tries) {
    Attempt without = attempt(step, steps, quantizer, threads, dropped);
    if (std::vector<std::int32_t> finer = limits; tighten(without, steps, finer)) break;
    made = std::move(without);
  }
  Chosen chosen{std::move(made.values)};
  for (const double error : made.errors) {
    chosen.relative_error += error / squares_;
    chosen.error += error;
  }
  if (rows() == 1) {
    chosen.values.step = steps[0];
  } else if (std::ranges::any_of(steps, [&](std::int32_t own) { return own != step; })) {
    for (std::int32_t& own : steps) own -= step;
    chosen.values.row_steps = std::move(steps);
  }
  return chosen;
}

bool is_stack(const std::vector<std::int64_t>& shape) noexcept {
  return shape.size() == 3 && shape[2] >= kLeastSide && shape[0] >= 1 && shape[0] <= shape[1] &&
         shape[0] <= shape[2];
}

MatrixFacts matrix_facts(const IntegerGrid& grid, std::vector<RowSize> sizes, bool rows_apart,
                         std::span<const float> row_scales, std::int64_t slices) {
  MatrixFacts facts{.numbers = grid.size(), .sizes = std::move(sizes)};
  const std::size_t of_slice = facts.sizes.size() / static_cast<std::size_t>(slices);
  std::vector<double> sums(static_cast<std::size_t>(slices));  // of the rows' mean squares
  for (std::size_t row = 0; row < facts.sizes.size(); ++row) {
    const RowSize& size = facts.sizes[row];
    facts.squares += size.squares;
    facts.largest = std::max(facts.largest, size.largest);
    if (size.rms > 0 && (facts.least == 0 || size.rms < facts.least)) facts.least = size.rms;
    sums[row / of_slice] += size.rms * size.rms;
    if (size.largest > 0 && finest_of_row(size.largest) + kFeedbackRoom >
                                coarsest_of_row(size.rms, Quantizer::kNearest))
      facts.fits = false;
  }
  facts.rms = rms_of(facts.sizes);
  if (!rows_apart || grid.cols < kRowNumbers || grid.rows < 2) return facts;
  const std::vector<double> scales = centered_octaves(row_scales, grid.rows);
  bool same = true;
  for (std::size_t row = 0; row < facts.sizes.size(); ++row) {
    const double slice = std::sqrt(sums[row / of_slice] / static_cast<double>(of_slice));
    double octaves = 0;  // of rows of zeros
    if (facts.sizes[row].rms > 0)
      octaves = slice_octaves(slice / facts.rms) + std::log2(facts.sizes[row].rms / slice) / 2;
    if (!scales.empty()) octaves -= kScalePower * scales[row];
    facts.row_steps.push_back(
        kRowUnit * static_cast<std::int32_t>(std::lrint(octaves * kStepsPerOctave / kRowUnit)));
    same = same && facts.row_steps.back() == 0;
  }
  if (same) facts.row_steps.clear();
  return facts;
}

namespace {

/// Rows for a sample, evenly spread; none before `least`.
std::optional<StepMatrix> rows_from(
    std::size_t least, const IntegerGrid& grid,
    const std::function<void(std::size_t row, std::span<float> values)>& read,
    const MatrixFacts& facts, std::int64_t most) {
  IntegerGrid part = grid;
  part.rows = std::clamp<std::int64_t>((most + grid.cols - 1) / grid.cols, 1, grid.rows);
  const auto cols = static_cast<std::size_t>(grid.cols);
  std::vector<float> taken(static_cast<std::size_t>(part.rows) * cols);
  std::vector<std::int32_t> offsets;
  std::vector<RowSize> sizes;
  for (std::int64_t i = 0; i < part.rows; ++i) {
    const auto row = std::max(least, static_cast<std::size_t>(i * grid.rows / part.rows));
    read(row, std::span(taken).subspan(static_cast<std::size_t>(i) * cols, cols));
    if (!facts.row_steps.empty()) offsets.push_back(facts.row_steps[row]);
    if (!facts.sizes.empty()) sizes.push_back(facts.sizes[row]);
    least = 0;
  }
  if (squares_of(taken) == 0) return {};
  return StepMatrix(part, std::move(taken), std::move(offsets), std::move(sizes));
}

/// A piece of the only row.
StepMatrix piece_of_row(const IntegerGrid& grid, std::span<const float> values,
                        const MatrixFacts& facts, std::int64_t most) {
  IntegerGrid part = grid;
  std::vector<RowSize> sizes;
  part.cols = std::min(grid.cols, std::max<std::int64_t>(most, 1));
  if (part.stride >= part.cols) part.stride = 0;
  const auto numbers = static_cast<std::size_t>(part.cols);
  std::size_t first = 0;
  // Changes may begin later.
  if (squares_of(values.first(numbers)) == 0)
    first = std::min(first_nonzero(values), values.size() - numbers);
  const auto from = values.subspan(first, numbers);
  std::vector<float> taken(from.begin(), from.end());
  if (!facts.sizes.empty()) sizes.push_back(size_of_row(taken));
  return {part, std::move(taken), {}, std::move(sizes)};
}

}  // namespace

std::optional<StepMatrix> sample_of_rows(
    const IntegerGrid& grid,
    const std::function<void(std::size_t row, std::span<float> values)>& read,
    const MatrixFacts& facts, std::int64_t most) {
  return rows_from(0, grid, read, facts, most);
}

StepMatrix sample_of(const IntegerGrid& grid, std::span<const float> values,
                     const MatrixFacts& facts, std::int64_t most) {
  if (grid.rows == 1) return piece_of_row(grid, values, facts, most);
  const auto cols = static_cast<std::size_t>(grid.cols);
  const auto read = [&](std::size_t row, std::span<float> to) {
    const auto from = values.subspan(row * cols, cols);
    std::copy(from.begin(), from.end(), to.begin());
  };
  if (auto sample = rows_from(0, grid, read, facts, most)) return *std::move(sample);
  // The rows between them are not all 0, as where an embedding was tuned on a few words.
  const std::size_t last = static_cast<std::size_t>(grid.rows - 1);
  if (auto sample =
          rows_from(std::min(first_nonzero(values) / cols, last), grid, read, facts, most))
    return *std::move(sample);
  return {grid, {values.begin(), values.end()}, facts.row_steps, facts.sizes};
}

}  // namespace gbcompress
