// Steps of tables of a vocabulary (docs/explanation/adr/0007-steps-without-data.md).
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "quantize/allocation/plan.h"

namespace gbcompress {
namespace {

/// A table of a vocabulary has so many rows, so many for each column, and at most one beside it.
constexpr std::int64_t kLeastRows = 4096, kRowsPerColumn = 6;
constexpr double kMostTables = 2;
/// What its relative error costs, over what it costs in all matrices of one place in the blocks.
constexpr double kHeadCost = 1.3;

/// A vocabulary is listed by falling frequency, about: errors of row i cost as much as
/// (i + kFirst)^-kFall, the law of Zipf and Mandelbrot.
constexpr double kFirst = 300, kFall = 0.75;
/// Steps of rows are multiples of this many sixteenths of an octave.
constexpr int kUnit = 4;

using Shape = std::vector<std::int64_t>;

/// A matrix, or the pieces of one.
struct Matrix {
  Shape shape;
  double numbers = 0, slices = 1;
  bool multiplied = false;
};

bool is_table(const Matrix& matrix, double alike) {
  if (matrix.shape.size() != 2 || alike > kMostTables) return false;
  const auto [small, large] = std::minmax(matrix.shape[0], matrix.shape[1]);
  return large >= kLeastRows && large >= kRowsPerColumn * small;
}

bool is_own_matrix(const TensorPlan& tensor) {
  return tensor.kind == WeightKind::kMatrix && !tensor.tied && !tensor.base;
}

/// Steps of rows go with what their errors cost to the power of -1/4, half of what would be right
/// if the order were known to be that of the frequency.
/// @return what errors cost, over what they do with equal steps
double follow_frequency(std::vector<std::int32_t>& row_steps, std::int64_t rows) {
  const auto n = static_cast<std::size_t>(rows);
  row_steps.resize(n);
  const auto octaves = [](std::size_t i) {
    return std::log2(kFirst + static_cast<double>(i)) * kFall / 4;
  };
  double center = 0, equal = 0, own = 0;
  for (std::size_t i = 0; i < n; ++i) center += octaves(i) / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double units = std::nearbyint((octaves(i) - center) * kStepsPerOctave / kUnit);
    const double cost = std::exp2(-4 * octaves(i));
    row_steps[i] += kUnit * static_cast<std::int32_t>(units);
    equal += cost;
    own += cost * std::exp2(2 * units * kUnit / kStepsPerOctave);
  }
  return own / equal;
}

/// Matrices by name, with pieces joined.
std::map<std::string, Matrix> matrices_of(const std::vector<TensorPlan>& tensors) {
  std::map<std::string, Matrix> matrices;
  for (const TensorPlan& tensor : tensors) {
    if (!is_own_matrix(tensor)) continue;
    Matrix& matrix = matrices[whole_name(*tensor.source)];
    if (matrix.shape.empty())
      matrix.shape = tensor.source->shape;
    else
      matrix.shape[0] += tensor.source->shape[0];
    matrix.numbers += static_cast<double>(tensor.facts.numbers);
    matrix.slices = static_cast<double>(tensor.slices);
    matrix.multiplied = matrix.multiplied || tensor.multiplied;
  }
  // Under two names it is an embedding and a head.
  for (const TensorPlan& tensor : tensors)
    if (tensor.tied && is_own_matrix(tensors[*tensor.tied]))
      matrices.at(whole_name(*tensors[*tensor.tied].source)).multiplied = true;
  return matrices;
}

}  // namespace

void WeightsPlan::refine_heads() {
  const std::map<std::string, Matrix> matrices = matrices_of(tensors_);
  std::map<Shape, double> alike;
  for (const auto& [name, matrix] : matrices) alike[matrix.shape] += matrix.slices;
  std::vector<double> blocks;  // of each matrix: how many are alike
  for (const auto& [name, matrix] : matrices)
    if (const double n = alike[matrix.shape]; !is_table(matrix, n)) blocks.push_back(n);
  if (blocks.empty()) return;
  const auto middle = blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2);
  std::nth_element(blocks.begin(), middle, blocks.end());
  const double finer = std::log2(std::max(1.0, kHeadCost * *middle)) / 2;
  for (TensorPlan& tensor : tensors_) {
    if (!is_own_matrix(tensor)) continue;
    const Matrix& matrix = matrices.at(whole_name(*tensor.source));
    // Pieces have the step of the whole.
    tensor.factor += std::log2(matrix.numbers / static_cast<double>(tensor.facts.numbers)) / 2;
    if (!is_table(matrix, alike[matrix.shape])) continue;
    if (matrix.multiplied) tensor.factor -= finer;
    if (tensor.rows_apart && tensor.grid.rows == matrix.shape[0])
      tensor.factor -= std::log2(follow_frequency(tensor.facts.row_steps, matrix.shape[0])) / 2;
  }
}

}  // namespace gbcompress
