#include "artifact/integers/transform.h"

#include <algorithm>
#include <cmath>

#include "encoding/waves.h"

namespace gbcompress {
namespace {

/// Cosines of n positions: [wave, position].
std::vector<double> waves(std::int64_t n) {
  std::vector<double> table(static_cast<std::size_t>(n * n));
  const double constant = std::sqrt(1.0 / static_cast<double>(n));
  const double scale = std::sqrt(2.0 / static_cast<double>(n));
  std::vector<double> turn(static_cast<std::size_t>(4 * n));  // by 4 n steps
  for (std::int64_t step = 0; step < 4 * n; ++step)
    turn[static_cast<std::size_t>(step)] = scale * cos_pi(step, 2 * n);
  for (std::int64_t k = 0; k < n; ++k)
    for (std::int64_t i = 0; i < n; ++i)
      table[static_cast<std::size_t>(k * n + i)] =
          k == 0 ? constant : turn[static_cast<std::size_t>(k * (2 * i + 1) % (4 * n))];
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

/// sums[j] += factor * numbers[j]
template <typename T>
void add_multiple(std::vector<double>& sums, double factor, const T* numbers) {
  double* const to = sums.data();
  for (std::size_t j = 0; j < sums.size(); ++j) to[j] += factor * static_cast<double>(numbers[j]);
}

void round_to(std::span<float> to, std::span<const double> from) {
  std::transform(from.begin(), from.end(), to.begin(),
                 [](double sum) { return static_cast<float>(sum); });
}

/// to[o, a, j] = sum over b of table[b, a] * from[o, b, j], b ascending. Terms of numbers that are
/// 0 change no bit and are left out.
void multiply(const std::vector<double>& table, const Sides& sides, std::span<const float> from,
              std::span<float> to) {
  const std::size_t n = sides.side, inner = sides.inner;
  std::vector<double> sums(inner == 1 ? n : inner);
  for (std::size_t o = 0; o < sides.outer; ++o) {
    const float* const lines = from.data() + o * n * inner;
    if (inner == 1) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::size_t b = 0; b < n; ++b)
        if (lines[b] != 0) add_multiple(sums, static_cast<double>(lines[b]), table.data() + b * n);
      round_to(to.subspan(o * n, n), sums);
      continue;
    }
    for (std::size_t a = 0; a < n; ++a) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::size_t b = 0; b < n; ++b) add_multiple(sums, table[b * n + a], lines + b * inner);
      round_to(to.subspan((o * n + a) * inner, inner), sums);
    }
  }
}

std::vector<double> turned(const std::vector<double>& table, std::size_t n) {
  std::vector<double> result(table.size());
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i) result[i * n + k] = table[k * n + i];
  return result;
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
  multiply(turned(waves(static_cast<std::int64_t>(sides.side)), sides.side), sides, values,
           coefficients);
  return coefficients;
}

std::vector<float> from_cosines(std::span<const float> coefficients,
                                const std::vector<std::int64_t>& shape, int axis) {
  const Sides sides(shape, axis);
  std::vector<float> values(coefficients.size());
  multiply(waves(static_cast<std::int64_t>(sides.side)), sides, coefficients, values);
  return values;
}

std::vector<float> tensor_floats(const CodedValues& values,
                                 const std::vector<std::int64_t>& shape) {
  std::vector<float> floats = coded_floats(values);
  if (values.axis < 0) return floats;  // not in one expression, which would copy them
  return from_cosines(floats, shape, values.axis);
}

}  // namespace gbcompress
