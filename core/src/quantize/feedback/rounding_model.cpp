#include "quantize/feedback/rounding_model.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/parallel.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "quantize/feedback/add_scaled.h"
#include "quantize/feedback/trellis_feedback.h"
#include "quantize/matrix.h"
#include "quantize/row_steps.h"

namespace gbcompress {
namespace {

/// Damping of moments, in means of their diagonals.
constexpr double kColumnDamp = 0.02, kRowDamp = 0.1;
/// Finer steps are tried a quarter of an octave apart.
constexpr int kFiner = 4, kFinerTries = 16;

[[noreturn]] void refuse(const std::string& name, const char* member, const std::string& wanted) {
  throw Error(Errc::kShapeMismatch, "statistics of " + printable(name) + ": " + member +
                                        " does not fit the tensor, which needs " + wanted);
}

std::string square(std::int64_t n) {
  return "[" + std::to_string(n) + ", " + std::to_string(n) + "]";
}

std::shared_ptr<const UpperFactor> factor(const std::string& name, std::span<const float> moment,
                                          std::int64_t n, double damp, int threads) {
  try {
    return std::make_shared<const UpperFactor>(moment, n, damp, threads);
  } catch (const Error& error) {
    throw Error(error.code(), "statistics of " + printable(name) + ": " + error.what());
  }
}

void check(const std::string& name, const TensorStatistics& statistics, std::int64_t rows,
           std::int64_t cols) {
  const std::int64_t groups = statistics.groups;
  const auto size = [](const std::vector<float>& values) {
    return static_cast<std::int64_t>(values.size());
  };
  if (groups < 1 || rows % groups != 0)
    refuse(name, "input_moment",
           "a number of groups that divides its " + std::to_string(rows) + " outputs");
  if (size(statistics.input_moment) > 0 && size(statistics.input_moment) != groups * cols * cols)
    refuse(name, "input_moment",
           groups > 1 ? std::to_string(groups) + " blocks " + square(cols) : square(cols));
  if (size(statistics.output_moment) > 0 && size(statistics.output_moment) != rows * rows)
    refuse(name, "output_moment", square(rows));
  if (size(statistics.input_mean) > 0 && size(statistics.input_mean) != groups * cols)
    refuse(name, "input_mean", "[" + std::to_string(groups * cols) + "]");
  const std::int64_t told = size(statistics.row_importance);
  if (told > 0 && rows % told != 0 && told % rows != 0)
    refuse(name, "row_importance", "[" + std::to_string(rows) + "]");
}

/// With this part replaced by the identity of the same mean diagonal.
/// @param moment  where the result lies, unless the part is 0
std::span<const float> shrunk(std::span<const float> square, std::int64_t n, double part,
                              std::vector<float>& moment) {
  if (part == 0) return square;
  moment.assign(square.begin(), square.end());
  const auto diagonal = static_cast<std::size_t>(n + 1);
  double mean = 0;
  for (std::size_t i = 0; i < moment.size(); i += diagonal)
    mean += static_cast<double>(moment[i]) / static_cast<double>(n);
  for (float& value : moment) value = static_cast<float>((1 - part) * static_cast<double>(value));
  for (std::size_t i = 0; i < moment.size(); i += diagonal)
    moment[i] += static_cast<float>(part * mean);
  return moment;
}

/// Rounds group after group; the loss becomes the sum of theirs.
CodedValues round_groups(const IntegerGrid& grid, std::span<const float> values,
                         const RoundingModel& model, const Rounding& rounding, double& loss) {
  const auto groups = static_cast<std::int64_t>(model.groups.size());
  if (groups == 1) return round_with_feedback(grid, values, model.groups[0], rounding, &loss);
  IntegerGrid part = grid;
  part.rows /= groups;
  const auto rows = static_cast<std::size_t>(part.rows);
  const auto count = static_cast<std::size_t>(part.size());
  CodedValues all{.grid = grid, .step = rounding.step};
  all.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
  all.integers.resize(values.size());
  std::vector<double> losses(model.groups.size());
  parallel_tasks(rounding.threads, groups, [&](std::int64_t n) {
    const auto g = static_cast<std::size_t>(n);
    Rounding own = rounding;
    own.threads = 1;
    if (!own.row_steps.empty()) own.row_steps = own.row_steps.subspan(g * rows, rows);
    const CodedValues coded = round_with_feedback(part, values.subspan(g * count, count),
                                                  model.groups[g], own, &losses[g]);
    std::copy(coded.integers.begin(), coded.integers.end(),
              all.integers.begin() + static_cast<std::ptrdiff_t>(g * count));
  });
  loss = 0;
  for (const double one : losses) loss += one;
  return all;
}

/// Columns in the order of the model's factor.
std::vector<float> in_order(std::span<const float> values, const RoundingModel& model) {
  if (!model.order) return {values.begin(), values.end()};
  const std::vector<std::int64_t>& columns = model.order->columns;
  std::vector<float> moved;
  moved.reserve(values.size());
  for (std::size_t row = 0; row < values.size(); row += columns.size())
    for (const std::int64_t j : columns) moved.push_back(values[row + static_cast<std::size_t>(j)]);
  return moved;
}

/// Octaves by which values far from 1 are divided; 0 for those of usual size.
int unit_of(std::span<const float> values) {
  constexpr int kUsual = 24;
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const int octaves = largest > 0 ? std::ilogb(largest) : 0;
  return std::abs(octaves) > kUsual ? octaves : 0;
}

std::vector<float> times_power(std::span<const float> values, int octaves) {
  std::vector<float> moved;
  moved.reserve(values.size());
  for (const float value : values) moved.push_back(std::ldexp(value, octaves));
  return moved;
}

/// Squared error over squares.
double error_of(const CodedValues& coded, std::span<const float> values,
                std::span<const double> column_factors) {
  const auto cols = static_cast<std::size_t>(coded.grid.cols);
  double error = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(coded.grid.rows); ++i) {
    const int step = coded.step + (coded.row_steps.empty() ? 0 : coded.row_steps[i]);
    const auto size = static_cast<double>(step_size(step));
    for (std::size_t j = 0; j < cols; ++j) {
      const double factor = column_factors.empty() ? size : size * column_factors[j];
      const double off =
          static_cast<double>(values[i * cols + j]) - coded.integers[i * cols + j] * factor;
      error += off * off;
    }
  }
  return error / squares_of(values);
}

}  // namespace

bool dependent(const TensorStatistics& statistics, const StatisticsUse& use) {
  return use.feedback && statistics.groups == 1 && !statistics.input_moment.empty();
}

std::vector<float> importance_of_rows(std::span<const float> told, std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  std::vector<float> result(told.empty() ? 0 : count);
  const std::size_t parts = std::max(count, told.size());
  for (std::size_t i = 0; i < parts && !told.empty(); ++i)
    result[i * count / parts] += told[i * told.size() / parts] *
                                 (static_cast<float>(told.size()) / static_cast<float>(parts));
  return result;
}

bool RoundingModel::has_feedback() const noexcept {
  return std::any_of(groups.begin(), groups.end(),
                     [](const SecondOrder& of) { return of.columns || of.rows; });
}

RoundingModel rounding_model(const std::string& name, const TensorStatistics& statistics,
                             std::int64_t rows, std::int64_t cols,
                             std::span<const float> importance, const StatisticsUse& use,
                             FactorSetup setup) {
  check(name, statistics, rows, cols);
  RoundingModel model;
  model.groups.resize(static_cast<std::size_t>(statistics.groups));
  if (dependent(statistics, use)) model.order = std::move(setup.order);
  model.mean_square = 0;
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const auto n = static_cast<std::size_t>(cols);
    std::vector<float> blended;
    const auto moment = [&] {
      return shrunk(std::span(statistics.input_moment).subspan(g * n * n, n * n), cols,
                    use.shrinkage, blended);
    };
    if (use.feedback && setup.columns)
      model.groups[g].columns = setup.columns;
    else if (use.feedback && !statistics.input_moment.empty())
      model.groups[g].columns = model.order
                                    ? factor(name, ordered(moment(), model.order->columns), cols,
                                             kColumnDamp, setup.threads)
                                    : factor(name, moment(), cols, kColumnDamp, setup.threads);
    const bool rows_alone = statistics.input_moment.empty();
    if (use.feedback && (use.two_sided || rows_alone) && statistics.groups == 1 &&
        !statistics.output_moment.empty())
      model.groups[g].rows =
          factor(name, shrunk(statistics.output_moment, rows, use.shrinkage, blended), rows,
                 kRowDamp, setup.threads);
    model.mean_square += model.groups[g].mean_square() / static_cast<double>(model.groups.size());
  }
  if (use.bias) model.input_mean = statistics.input_mean;
  double mean = 0;
  for (const float value : importance) mean += static_cast<double>(value);
  mean /= static_cast<double>(std::max<std::size_t>(importance.size(), 1));
  if (!(mean > 0)) return model;
  const double power = statistics.groups == 1 ? use.row_power : 0;
  if (power <= 0) return model;
  std::vector<double> shares;
  for (const float value : importance) shares.push_back(static_cast<double>(value) / mean);
  RowSteps steps = row_steps_by_cost(shares, power);
  model.row_steps = std::move(steps.offsets);
  model.row_cost = steps.cost;
  return model;
}

double row_loss(const RoundingModel& model, std::size_t row, std::int64_t rows,
                std::span<const float> error) {
  const std::size_t group = row / (static_cast<std::size_t>(rows) / model.groups.size());
  const std::vector<float> moved = in_order(error, model);
  std::vector<double> sums(moved.begin(), moved.end());
  const UpperFactor* const factor = model.groups[group].columns.get();
  double loss = 0;
  const auto n = static_cast<std::int64_t>(sums.size());
  for (std::int64_t j = 0; j < n; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const double root = factor ? factor->diagonal(j) : 1;
    loss += root * root * sums[at] * sums[at];
    if (factor && moved[at] != 0)
      add_scaled(sums.data() + j + 1, factor->row(j) + j + 1, static_cast<double>(moved[at]),
                 n - j - 1);
  }
  return loss;
}

CodedValues round_within(const IntegerGrid& whole, std::span<const float> given,
                         const RoundingModel& model, Rounding rounding) {
  // Factors are those of any unit: values far from 1 have one that keeps squares of float32 finite.
  const int unit = unit_of(given);
  std::vector<float> moved;
  if (unit != 0) moved = times_power(given, -unit);
  const std::span<const float> values = unit != 0 ? std::span<const float>(moved) : given;
  rounding.step -= kStepsPerOctave * unit;
  IntegerGrid grid = whole;
  grid.rows *= model.pieces;
  grid.cols /= model.pieces;
  std::vector<std::int32_t> row_steps;
  for (const std::int32_t step : rounding.row_steps)
    row_steps.insert(row_steps.end(), static_cast<std::size_t>(model.pieces), step);
  const auto steps = rounding.row_steps;
  rounding.row_steps = row_steps;
  double zeros = -1;  // cost of zeros
  CodedValues coded{.grid = grid};
  coded.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
  const auto round = [&](const Rounding& with, double& loss) {
    if (!model.order) {
      coded = round_groups(grid, values, model, with, loss);
      return error_of(coded, values, with.column_factors);
    }
    DependentIntegers chosen = round_dependent(grid, values, model.groups[0], *model.order, with);
    coded.step = with.step;
    coded.integers = std::move(chosen.integers);
    loss = chosen.loss;
    return chosen.error / squares_of(values);
  };
  for (int tries = 0; tries < kFinerTries; ++tries, rounding.step -= kFiner) {
    double loss = 0;
    if (round(rounding, loss) <= kMostRelativeError) break;
    if (zeros < 0) {
      Rounding coarsest = rounding;
      coarsest.step = kMaxStep;
      coarsest.row_steps = {};
      IntegerGrid independent = grid;
      independent.dependent = independent.lanes = false;
      round_groups(independent, in_order(values, model), model, coarsest, zeros);
    }
    if (loss <= kMostRelativeError * zeros) break;
  }
  coded.grid = whole;
  coded.step += kStepsPerOctave * unit;
  coded.row_steps.assign(steps.begin(), steps.end());
  return coded;
}

}  // namespace gbcompress
