#include "artifact/integers/transform.h"

#include <algorithm>
#include <cmath>

#include "artifact/integers/products.h"
#include "encoding/waves.h"

namespace gbcompress {
namespace {

enum class Order { kWaves, kPositions };  ///< what the rows of a table are

/// Cosines of n positions: [wave, position], or [position, wave].
std::vector<double> waves(std::int64_t n, Order order) {
  std::vector<double> table;
  table.reserve(static_cast<std::size_t>(n * n));
  const double constant = std::sqrt(1.0 / static_cast<double>(n));
  const double scale = std::sqrt(2.0 / static_cast<double>(n));
  std::vector<double> turn(static_cast<std::size_t>(4 * n));  // by 4 n steps
  for (std::int64_t step = 0; step < 4 * n; ++step)
    turn[static_cast<std::size_t>(step)] = scale * cos_pi(step, 2 * n);
  for (std::int64_t row = 0; row < n; ++row) {
    // Of wave k at position i: k (2 i + 1) steps, modulo a whole turn.
    std::int64_t step = order == Order::kWaves ? row : 0;
    const std::int64_t stride = order == Order::kWaves ? 2 * row : 2 * row + 1;
    for (std::int64_t i = 0; i < n; ++i) {
      table.push_back(turn[static_cast<std::size_t>(step)]);
      step = step + stride < 4 * n ? step + stride : step + stride - 4 * n;
    }
    if (order == Order::kPositions) table[static_cast<std::size_t>(row * n)] = constant;
  }
  if (order == Order::kWaves) std::fill_n(table.begin(), n, constant);
  return table;
}

/// A tensor as [outer, side, inner].
struct Sides {
  std::size_t outer = 1, side = 1, inner = 1;

  Sides(const std::vector<std::int64_t>& shape, int axis) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::size_t& part = d < static_cast<std::size_t>(axis)    ? outer
                          : d == static_cast<std::size_t>(axis) ? side
                                                                : inner;
      part *= static_cast<std::size_t>(shape[d]);
    }
  }
};

/// to[o, a, j] = sum over b of factor(a, b) * from[o, b, j], b ascending: the cosine of wave b at
/// position a, or of wave a at position b.
/// @param rows  what a counts
void multiply(Order rows, const Sides& sides, std::span<const float> from, std::span<float> to) {
  const std::size_t n = sides.side, inner = sides.inner;
  const bool right = inner == 1;  // the table is the right one of the matrices, b its rows
  const bool by_wave = (rows == Order::kWaves) != right;
  const std::vector<double> table =
      waves(static_cast<std::int64_t>(n), by_wave ? Order::kWaves : Order::kPositions);
  if (right) return multiply_in_order(from.data(), table.data(), {sides.outer, n, n}, to.data());
  for (std::size_t o = 0; o < sides.outer; ++o)
    multiply_in_order(table.data(), from.data() + o * n * inner, {n, n, inner},
                      to.data() + o * n * inner);
}

}  // namespace

bool has_transform(const std::vector<std::int64_t>& shape, int axis) noexcept {
  if (axis < 0 || static_cast<std::size_t>(axis) >= shape.size()) return false;
  const std::int64_t side = shape[static_cast<std::size_t>(axis)];
  return side >= kLeastSide && side <= kMostSide;
}

std::vector<float> to_cosines(std::span<const float> values, const std::vector<std::int64_t>& shape,
                              int axis) {
  const Sides sides(shape, axis);
  std::vector<float> coefficients(values.size());
  multiply(Order::kWaves, sides, values, coefficients);
  return coefficients;
}

std::vector<float> from_cosines(std::span<const float> coefficients,
                                const std::vector<std::int64_t>& shape, int axis) {
  const Sides sides(shape, axis);
  std::vector<float> values(coefficients.size());
  multiply(Order::kPositions, sides, coefficients, values);
  return values;
}

std::vector<float> tensor_floats(const CodedValues& values,
                                 const std::vector<std::int64_t>& shape) {
  std::vector<float> floats = coded_floats(values);
  if (values.axis < 0) return floats;  // not in one expression, which would copy them
  return from_cosines(floats, shape, values.axis);
}

}  // namespace gbcompress
