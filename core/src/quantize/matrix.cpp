#include "quantize/matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/parallel.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress {
namespace {

std::atomic<std::int64_t> values_chosen_so_far{0};

/// Rows of fewer numbers say too little about themselves.
constexpr std::int64_t kRowNumbers = 8;
/// A row's rms counts as at least this share of its tensor's.
constexpr double kLeastRow = 0.03;
/// A product's rows have steps of (row's rms x scale)^(1/2); over the scale, that is this power of
/// the scale, halved for the geometric mean with steps that do not know it.
constexpr double kScalePower = 0.25;
/// A scale counts as at least this share of the largest.
constexpr double kLeastScale = 0.01;
constexpr int kRowUnit = 4;

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
    double sum = 0;
    for (std::size_t i = row * cols; i < (row + 1) * cols; ++i) {
      const auto off = static_cast<double>(static_cast<float>(integers[i]) * size - scaled[i]);
      sum += off * off;
    }
    errors[row] = sum;
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

}  // namespace

double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

StepMatrix::StepMatrix(IntegerGrid grid, std::vector<float> values,
                       std::vector<std::int32_t> row_steps)
    : grid_(grid), scaled_(std::move(values)), row_steps_(std::move(row_steps)) {
  squares_ = squares_of(scaled_);
  const auto cols = static_cast<std::size_t>(grid_.cols);
  for (std::size_t row = 0; row < row_steps_.size(); ++row) {
    const float factor = step_size(row_steps_[row]), inverse = 1 / factor;
    row_weights_.push_back(static_cast<double>(factor) * static_cast<double>(factor));
    for (float& value : std::span(scaled_).subspan(row * cols, cols)) value *= inverse;
  }
  float largest = 0;
  for (const float value : scaled_) largest = std::max(largest, std::fabs(value));
  // Half a step of room: quantizer 1 counts from there.
  finest_ = nearest_step(largest / (static_cast<float>(kMaxMagnitude) - 2)) + 1;
  const auto [low, high] = std::minmax_element(row_steps_.begin(), row_steps_.end());
  if (low != row_steps_.end()) finest_ = std::max(finest_, kMinStep - *low);
}

std::int64_t StepMatrix::values_chosen() noexcept { return values_chosen_so_far; }

StepMatrix::Chosen StepMatrix::choose(int step, Quantizer quantizer, int threads) const {
  values_chosen_so_far += static_cast<std::int64_t>(scaled_.size());
  Chosen chosen{{.grid = grid_, .step = step, .row_steps = row_steps_}, 0};
  CodedValues& values = chosen.values;
  values.grid.dependent = quantizer == Quantizer::kTrellis;
  values.grid.lanes = grid_.lanes && values.grid.dependent;
  values.integers.resize(scaled_.size());
  const float size = step_size(step);
  const auto cols = static_cast<std::size_t>(grid_.cols);
  const auto rows = static_cast<std::size_t>(grid_.rows);
  std::vector<double> errors(rows);
  if (values.grid.dependent) {
    const Trellis trellis(values.grid, scaled_);
    parallel_tasks(threads, trellis.parts(),
                   [&](std::int64_t part) { trellis.choose(part, size, values.integers); });
    codec::QuantizerStates states(values.grid);
    for (std::size_t row = 0, i = 0; row < rows; ++row)
      for (const std::size_t end = i + cols; i < end; ++i) {
        const std::int32_t k = values.integers[i];
        codec::QuantizerState& state = states.next();
        const float number = static_cast<float>(state.twice(k)) * (size / 2);
        state.pass(k);
        const auto off = static_cast<double>(number - scaled_[i]);
        errors[row] += off * off;
      }
  } else {
    const std::size_t each = std::max<std::size_t>(1, kTaskNumbers / cols);
    parallel_tasks(threads, static_cast<std::int64_t>((rows + each - 1) / each),
                   [&](std::int64_t task) {
                     const std::size_t first = static_cast<std::size_t>(task) * each;
                     const std::size_t count = std::min(each, rows - first);
                     round_rows(std::span(scaled_).subspan(first * cols, count * cols), cols, size,
                                std::span(values.integers).subspan(first * cols, count * cols),
                                std::span(errors).subspan(first, count));
                   });
  }
  double error = 0;
  for (std::size_t row = 0; row < rows; ++row)
    error += row_weights_.empty() ? errors[row] : errors[row] * row_weights_[row];
  chosen.relative_error = error / squares_;
  return chosen;
}

MatrixFacts matrix_facts(const IntegerGrid& grid, std::span<const float> values, bool rows_apart,
                         std::span<const float> row_scales) {
  MatrixFacts facts{.numbers = grid.size()};
  const double n = static_cast<double>(values.size());
  const double squares = squares_of(values);
  facts.rms = std::sqrt(squares / n);
  if (!rows_apart || grid.cols < kRowNumbers || grid.rows < 2) return facts;
  const std::vector<double> scales = centered_octaves(row_scales, grid.rows);
  const auto cols = static_cast<std::size_t>(grid.cols);
  bool same = true;
  for (std::size_t row = 0; row < static_cast<std::size_t>(grid.rows); ++row) {
    const double rms =
        std::sqrt(squares_of(values.subspan(row * cols, cols)) / static_cast<double>(cols));
    double octaves = std::log2(std::max(rms / facts.rms, kLeastRow)) / 2;
    if (!scales.empty()) octaves -= kScalePower * scales[row];
    facts.row_steps.push_back(
        kRowUnit * static_cast<std::int32_t>(std::lrint(octaves * kStepsPerOctave / kRowUnit)));
    same = same && facts.row_steps.back() == 0;
  }
  if (same) facts.row_steps.clear();
  return facts;
}

StepMatrix sample_of(const IntegerGrid& grid, std::span<const float> values,
                     std::span<const std::int32_t> row_steps, std::int64_t most) {
  IntegerGrid part = grid;
  std::vector<float> taken;
  std::vector<std::int32_t> offsets;
  if (grid.rows == 1) {
    part.cols = std::min(grid.cols, std::max<std::int64_t>(most, 1));
    if (part.stride >= part.cols) part.stride = 0;
    const auto numbers = static_cast<std::size_t>(part.cols);
    std::size_t first = 0;
    // Changes may begin later.
    if (squares_of(values.first(numbers)) == 0)
      first = std::min(first_nonzero(values), values.size() - numbers);
    const auto from = values.subspan(first, numbers);
    taken.assign(from.begin(), from.end());
    return {part, std::move(taken), {}};
  }
  part.rows = std::clamp<std::int64_t>((most + grid.cols - 1) / grid.cols, 1, grid.rows);
  const auto cols = static_cast<std::size_t>(grid.cols);
  const auto take = [&](std::size_t first) {
    for (std::int64_t i = 0; i < part.rows; ++i) {
      const auto row = std::max(first, static_cast<std::size_t>(i * grid.rows / part.rows));
      const auto from = values.subspan(row * cols, cols);
      taken.insert(taken.end(), from.begin(), from.end());
      if (!row_steps.empty()) offsets.push_back(row_steps[row]);
      first = 0;
    }
  };
  take(0);
  if (squares_of(taken) > 0) return {part, std::move(taken), std::move(offsets)};
  // The rows between them are not all 0, as where an embedding was tuned on a few words.
  taken.clear();
  offsets.clear();
  take(first_nonzero(values) / cols);
  return {part, std::move(taken), std::move(offsets)};
}

}  // namespace gbcompress
