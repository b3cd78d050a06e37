// Steps of tables of a vocabulary (docs/explanation/adr/0007-steps-without-data.md and
// 0024-rows-by-importance.md).
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quantize/allocation/bit_allocation.h"
#include "quantize/row_steps.h"

namespace gbcompress {
namespace {

/// A table of a vocabulary has so many rows, so many for each column, and at most one beside it.
constexpr std::int64_t kLeastRows = 4096, kRowsPerColumn = 6;
constexpr double kMostTables = 2;
/// What its relative error costs, over what it costs in all matrices of one place in the blocks.
constexpr double kHeadCost = 1.3;

/// A vocabulary is listed by falling frequency, about: errors of row i cost as much as
/// (i + kFirst)^-kFall, the law of Zipf and Mandelbrot. kPower is half of what would be right if
/// the order were known to be that of the frequency.
constexpr double kFirst = 300, kFall = 0.75, kPower = 0.5;

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

bool is_own_matrix(const TensorAllocation& tensor) {
  return tensor.kind == WeightKind::kMatrix && !tensor.tied && !tensor.base;
}

/// Of the rows of a vocabulary, one after another.
RowSteps steps_by_order(std::int64_t rows) {
  std::vector<double> shares;
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    shares.push_back(std::pow(kFirst + static_cast<double>(i), -kFall));
    sum += shares.back();
  }
  for (double& share : shares) share *= static_cast<double>(rows) / sum;
  return row_steps_by_cost(shares, kPower);
}

/// Matrices by name, with pieces joined.
std::map<std::string, Matrix> matrices_of(const std::vector<TensorAllocation>& tensors) {
  std::map<std::string, Matrix> matrices;
  for (const TensorAllocation& tensor : tensors) {
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
  for (const TensorAllocation& tensor : tensors)
    if (tensor.tied && is_own_matrix(tensors[*tensor.tied]))
      matrices.at(whole_name(*tensors[*tensor.tied].source)).multiplied = true;
  return matrices;
}

}  // namespace

void BitAllocation::refine_heads() {
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
  for (TensorAllocation& tensor : tensors_) {
    if (!is_own_matrix(tensor)) continue;
    const Matrix& matrix = matrices.at(whole_name(*tensor.source));
    // Pieces have the step of the whole.
    tensor.factor += std::log2(matrix.numbers / static_cast<double>(tensor.facts.numbers)) / 2;
    if (!is_table(matrix, alike[matrix.shape])) continue;
    if (matrix.multiplied) tensor.factor -= finer;
    if (!tensor.rows_apart || tensor.grid.rows != matrix.shape[0]) continue;
    const RowSteps steps = steps_by_order(tensor.grid.rows);
    std::vector<std::int32_t>& offsets = tensor.facts.row_steps;
    offsets.resize(static_cast<std::size_t>(tensor.grid.rows));
    std::ranges::transform(offsets, steps.offsets, offsets.begin(), std::plus{});
    tensor.factor -= std::log2(steps.cost) / 2;
  }
}

}  // namespace gbcompress
