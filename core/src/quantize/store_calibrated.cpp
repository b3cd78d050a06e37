/// Integers of matrices with statistics.
#include <algorithm>
#include <cmath>

#include "gbcompress/error.h"
#include "quantize/feedback/beam.h"
#include "quantize/feedback/finer_rows.h"
#include "quantize/pieces.h"
#include "quantize/roles.h"
#include "quantize/store.h"

namespace gbcompress {
namespace {

/// What a row may lose where statistics tell what its errors cost: it may become zeros.
constexpr double kMostWithData = 1;
/// Sequences that are followed where making all integers takes long: of 268 million weights four in
/// place of up to sixteen take two thirds of the time, for a file of the same size and error.
constexpr std::size_t kFewPaths = 4;
/// Models of so few weights have all: with 64 in place of 16 ResNet-20 loses 6 to 9 % less in fewer
/// bytes, for a fifth more time.
constexpr std::int64_t kFewWeights = std::int64_t{1} << 20;

/// Matrices of more numbers are rounded in pieces, where these can be rounded by themselves: a
/// matrix with its errors takes 20 bytes for each number.
constexpr std::int64_t kManyNumbers = 1 << 25;

/// Sequences of dependent integers that are followed; 0: as the matrix says.
std::size_t paths_for(const BitAllocation& allocation) {
  if (takes_long(allocation)) return kFewPaths;
  return allocation.matrix_numbers() <= kFewWeights ? Beam::kMostPaths : 0;
}

/// The finest step: integers stay within a quarter of what the coder takes, since feedback may make
/// a value larger.
/// @param sizes  of rows
int finest_step(std::span<const RowSize> sizes, std::span<const std::int32_t> row_steps) {
  double largest = 0;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    const double size = row_steps.empty() ? 1 : static_cast<double>(step_size(row_steps[row]));
    largest = std::max(largest, static_cast<double>(sizes[row].largest) / size);
  }
  return nearest_step(static_cast<float>(4 * largest / kMaxMagnitude));
}

/// @param values  [rows, cols]
int finest_step(std::span<const float> values, std::int64_t cols,
                std::span<const std::int32_t> row_steps) {
  std::vector<RowSize> sizes(values.size() / static_cast<std::size_t>(cols));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& largest = sizes[i / static_cast<std::size_t>(cols)].largest;
    largest = std::max(largest, std::fabs(values[i]));
  }
  return finest_step(sizes, row_steps);
}

/// Rows of `from` [rows, cols] into columns [first, first + cols) of `to` [rows, width].
template <typename T>
void put_columns(std::span<const T> from, std::int64_t cols, std::span<T> to, std::int64_t width,
                 std::int64_t first) {
  const auto rows = static_cast<std::int64_t>(from.size()) / cols;
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy_n(from.begin() + i * cols, cols, to.begin() + i * width + first);
}

/// Columns [first, first + cols) of `from` [rows, width].
std::vector<std::int32_t> columns_of(std::span<const std::int32_t> from, std::int64_t width,
                                     std::int64_t first, std::int64_t cols) {
  std::vector<std::int32_t> part;
  for (std::size_t at = static_cast<std::size_t>(first); at < from.size();
       at += static_cast<std::size_t>(width))
    part.insert(part.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
                from.begin() + static_cast<std::ptrdiff_t>(at) + cols);
  return part;
}

}  // namespace

void WeightsStore::find_biases() {
  std::map<std::string, std::size_t> vectors;
  for (std::size_t i = 0; i < allocation_.tensors().size(); ++i) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    if (coded_vectors_.contains(tensor.source->name)) vectors[tensor.source->name] = i;
  }
  for (std::size_t i = 0; i < allocation_.tensors().size(); ++i) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    if (!tensor.model || !tensor.model->has_feedback() || tensor.model->input_mean.empty())
      continue;
    const auto bias = vectors.find(bias_of(tensor.source->name));
    if (bias != vectors.end() && allocation_.tensors()[bias->second].elements() == tensor.grid.rows)
      biases_[i] = bias->second;
  }
}

WeightsStore::Target WeightsStore::target_of(std::size_t i) const {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  const std::vector<float>& mean = tensor.model->input_mean;
  return {i, *tensor.model, tensor.numbers(), mean, mean};
}

void WeightsStore::correct_bias(const Target& target, const std::vector<float>& stored) {
  const auto bias = biases_.find(target.tensor);
  if (bias == biases_.end()) return;
  const IntegerGrid& grid = allocation_.tensors()[target.tensor].grid;
  const auto rows = static_cast<std::size_t>(grid.rows), cols = static_cast<std::size_t>(grid.cols);
  const std::size_t rows_of_group = rows / target.model.groups.size();
  std::vector<float> correction(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t own = row / rows_of_group * cols;
    double sum = 0;
    for (std::size_t j = 0; j < cols; ++j) {
      const auto given = static_cast<double>(target.numbers[row * cols + j]);
      const auto mean = static_cast<double>(target.mean[own + j]);
      sum += (given - static_cast<double>(stored[row * cols + j])) * mean +
             given * (static_cast<double>(target.mean_before[own + j]) - mean);
    }
    correction[row] = static_cast<float>(sum);
  }
  const std::lock_guard lock(mutex_);
  corrections_[bias->second] = std::move(correction);
}

void WeightsStore::put_biases() {
  for (const auto& [i, correction] : corrections_) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    std::vector<float> numbers = numbers_of(*tensor.source);
    for (std::size_t row = 0; row < numbers.size(); ++row) numbers[row] += correction[row];
    if (auto values = short_floats(tensor, numbers)) put(i, *std::move(values));
  }
  corrections_.clear();
}

std::vector<std::int32_t> WeightsStore::first_row_steps(const TensorAllocation& tensor,
                                                        int step) const {
  const std::vector<std::int32_t>& asked = tensor.facts.row_steps;
  if (!tensor.assumed) return asked;
  std::vector<std::int32_t> steps = asked;
  bool any = false;
  steps.resize(tensor.facts.sizes.size());
  for (std::size_t row = 0; row < steps.size(); ++row) {
    const RowSize& size = tensor.facts.sizes[row];
    if (size.largest == 0) continue;
    const int most = coarsest_of_row(size.rms, Quantizer::kNearest) - step;
    any = any || most < steps[row];
    steps[row] = std::min(steps[row], most);
  }
  return any ? steps : asked;
}

std::vector<WeightsStore::Rounded> WeightsStore::round_calibrated(
    const Target& target, double x, const std::vector<std::int32_t>& row_steps, int threads) const {
  const std::size_t i = target.tensor;
  const TensorAllocation& tensor = allocation_.tensors()[i];
  const RoundingModel& model = target.model;
  const auto step_of = [&](std::size_t at, std::span<const float> values) {
    const TensorAllocation& of = allocation_.tensors()[at];
    return std::max(of.step(x) + nudges_[at], finest_step(values, of.grid.cols, row_steps));
  };
  const auto grid_of = [&](const TensorAllocation& of) {
    IntegerGrid grid = of.grid;
    grid.dependent = model.order != nullptr;
    grid.lanes = grid.dependent && allocation_.profile() == CodecProfile::kLanes;
    return grid;
  };
  const IntegerGrid grid = grid_of(tensor);
  std::vector<float> values = target.numbers;
  Rounding rounding{.step = step_of(i, values),
                    .row_steps = row_steps,
                    .weight = takes_long(allocation_) ? 1 : tensor.weight(x),
                    .threads = threads,
                    .paths = paths_for(allocation_)};
  std::vector<Rounded> made;
  if (!model.second) {
    made.push_back({i, round_within(grid, values, model, rounding), std::move(values)});
    return made;
  }
  const TensorAllocation& second = allocation_.tensors()[*model.second];
  std::vector<float> others = second.numbers();
  const int apart = step_of(*model.second, others) - rounding.step;
  IntegerGrid both = grid;
  both.cols += second.grid.cols;
  both.stride = 0;
  std::vector<float> all(static_cast<std::size_t>(both.size()));
  put_columns<float>(values, grid.cols, all, both.cols, 0);
  put_columns<float>(others, second.grid.cols, all, both.cols, grid.cols);
  std::vector<double> factors(static_cast<std::size_t>(both.cols), 1);
  std::fill(factors.begin() + grid.cols, factors.end(),
            std::exp2(static_cast<double>(apart) / kStepsPerOctave));
  rounding.column_factors = factors;
  const CodedValues joint = round_within(both, all, model, rounding);
  CodedValues one = joint, two = joint;
  one.grid = grid;
  one.integers = columns_of(joint.integers, both.cols, 0, grid.cols);
  two.grid = grid_of(second);
  two.step += apart;
  two.integers = columns_of(joint.integers, both.cols, grid.cols, second.grid.cols);
  made.push_back({i, std::move(one), std::move(values)});
  made.push_back({*model.second, std::move(two), std::move(others)});
  return made;
}

bool WeightsStore::is_worse_than_zeros(const RoundingModel& model, const std::vector<Rounded>& made,
                                       const std::vector<std::vector<float>>& stored,
                                       std::size_t row) const {
  std::vector<float> zeros, error;
  for (std::size_t n = 0; n < made.size(); ++n) {
    const auto cols = static_cast<std::size_t>(made[n].coded.grid.cols);
    for (std::size_t j = row * cols; j < (row + 1) * cols; ++j) {
      zeros.push_back(made[n].numbers[j]);
      error.push_back(made[n].numbers[j] - stored[n][j]);
    }
  }
  return gbcompress::is_worse_than_zeros(model, row, made[0].coded.grid.rows, zeros, error);
}

bool WeightsStore::rounds_pieces(std::size_t i) const {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  return tensor.grid.size() > kManyNumbers && !options_.sequential && !biases_.contains(i) &&
         MatrixPieces::fits(tensor) && MatrixPieces::independent(*tensor.model);
}

void WeightsStore::place_calibrated_pieces(std::size_t i, double x, int threads) {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  const int asked = tensor.step(x) + nudges_[i];
  const std::vector<std::int32_t> row_steps = first_row_steps(tensor, asked);
  const Rounding rounding{.step = std::max(asked, finest_step(tensor.facts.sizes, row_steps)),
                          .row_steps = row_steps,
                          .weight = takes_long(allocation_) ? 1 : tensor.weight(x),
                          .paths = paths_for(allocation_)};
  MatrixPieces::Chosen chosen =
      MatrixPieces(tensor).round({.model = *tensor.model,
                                  .dependent = tensor.model->order != nullptr,
                                  .rounding = rounding,
                                  .most = tensor.assumed ? kMostRelativeError : kMostWithData,
                                  .zeros = !tensor.assumed},
                                 threads);
  errors_[i] = chosen.relative_error;
  put_packed(i, std::move(chosen.form), chosen.blocks);
}

void WeightsStore::place_calibrated(const Target& target, double x, int threads) {
  const std::size_t i = target.tensor;
  const TensorAllocation& tensor = allocation_.tensors()[i];
  // With statistics a row may become zeros, and its own error may be larger than the row where the
  // outputs are nearer for it; without them it may lose no more than any row.
  const double most = tensor.assumed ? kMostRelativeError : kMostWithData;
  std::vector<std::int32_t> row_steps = first_row_steps(tensor, tensor.step(x) + nudges_[i]);
  for (int tries = 0;; ++tries) {
    std::vector<Rounded> made = round_calibrated(target, x, row_steps, threads);
    std::vector<std::vector<float>> stored;
    for (const Rounded& one : made) stored.push_back(coded_floats(one.coded));
    bool finer = false;
    const auto counts = [&](std::size_t row) {
      return tensor.assumed || is_worse_than_zeros(target.model, made, stored, row);
    };
    for (std::size_t n = 0; n < made.size(); ++n) {
      const std::vector<RowSize>& sizes = allocation_.tensors()[made[n].tensor].facts.sizes;
      const RoundedRows rounded{made[n].coded, sizes, made[n].numbers, stored[n]};
      finer = finer_rows(rounded, most, counts, row_steps) || finer;
    }
    if (finer && tries < kMostFiner) continue;
    correct_bias(target, stored[0]);
    for (std::size_t n = 0; n < made.size(); ++n) {
      errors_[made[n].tensor] = relative_error(made[n].numbers, stored[n]);
      put(made[n].tensor, std::move(made[n].coded));
    }
    return;
  }
}

}  // namespace gbcompress
