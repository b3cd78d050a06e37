#include "quantize/structure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gbcompress {
namespace {

constexpr std::int64_t kLeastPositions = 9;
/// Residual over the deviation. Sines of large angles are off by 1e-3 in float32; smooth weights
/// leave more. Rounding to BF16 alone leaves up to 1 %.
constexpr double kMostResidual = 0.002, kMostResidualOfBF16 = 0.02;
/// Lines that are looked at before all of them.
constexpr std::int64_t kSampledLines = 16;
/// Values of a mirror image differ by at most that share of the largest.
constexpr float kMirrorShare = 1e-6F;
constexpr std::size_t kLeastPairs = 4;
/// Zeros of a bank of filters, and its rows, at least.
constexpr double kBankZeros = 0.75;
constexpr std::int64_t kBankRows = 4;
/// Beyond, float32 has integers alone.
constexpr float kLargestInteger = 0x1p24F;

/// Of the prediction of values by their two neighbors.
struct Fit {
  double residual = 0, variance = 0;
  bool holds(DType dtype) const {
    const double most = dtype == DType::kBF16 ? kMostResidualOfBF16 : kMostResidual;
    return residual <= most * most * variance;
  }
};

/// Fits a x[i] + b to x[i - 1] + x[i + 1] along a line.
/// @param at  gives a value of the line by its position
template <typename At>
void fit_line(const At& at, std::int64_t positions, Fit& fit) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, sum = 0, squares = 0;
  const double origin = at(0);
  for (std::int64_t i = 0; i < positions; ++i) {
    const double x = at(i) - origin;
    sum += x, squares += x * x;
    if (i == 0 || i + 1 == positions) continue;
    const double y = at(i - 1) + at(i + 1) - 2 * origin;
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y;
  }
  const auto all = static_cast<double>(positions);
  fit.variance += std::max(squares - sum * sum / all, 0.0) / all;
  const double xx = sxx - sx * sx / n, xy = sxy - sx * sy / n, yy = syy - sy * sy / n;
  const double residual = xx > 0 ? yy - xy * xy / xx : yy;
  fit.residual += std::max(residual, 0.0) / (n - 2);
}

/// One dimension of a tensor.
struct Axis {
  std::int64_t positions, stride, lines;
};

Fit fit_lines(std::span<const float> values, const Axis& axis, std::int64_t lines) {
  Fit fit;
  for (std::int64_t k = 0; k < lines; ++k) {
    const std::int64_t line = axis.lines / lines * k;
    const std::int64_t first =
        line / axis.stride * axis.stride * axis.positions + line % axis.stride;
    fit_line(
        [&](std::int64_t i) {
          return static_cast<double>(values[static_cast<std::size_t>(first + i * axis.stride)]);
        },
        axis.positions, fit);
  }
  return fit;
}

bool is_monotone(std::span<const float> values) {
  const bool up = values[1] > values[0];
  for (std::size_t i = 1; i < values.size(); ++i)
    if (up ? !(values[i] > values[i - 1]) : !(values[i] < values[i - 1])) return false;
  return true;
}

/// x[i] = x[n - 1 - i], or its negative.
bool is_mirrored(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const float most = kMirrorShare * largest;
  const std::size_t n = values.size();
  if (n / 2 < kLeastPairs) return false;
  bool even = true, odd = true;
  for (std::size_t i = 0; i < n / 2; ++i) {
    even = even && std::fabs(values[i] - values[n - 1 - i]) <= most;
    odd = odd && std::fabs(values[i] + values[n - 1 - i]) <= most;
  }
  return even || odd;
}

bool is_bank(std::span<const float> values, const std::vector<std::int64_t>& shape) {
  if (shape.size() != 2 || shape[0] < kBankRows) return false;
  const auto cols = static_cast<std::size_t>(shape[1]);
  std::size_t zeros = 0, begin = 0, rows = 0;
  for (std::size_t first = 0; first < values.size(); first += cols) {
    const auto row = values.subspan(first, cols);
    const auto is_zero = [](float value) { return value == 0; };
    const auto at = std::find_if_not(row.begin(), row.end(), is_zero);
    const auto end = std::find_if(at, row.end(), is_zero);
    // A later run, or a negative value.
    if (std::find_if_not(end, row.end(), is_zero) != row.end()) return false;
    if (std::any_of(at, end, [](float value) { return value < 0; })) return false;
    zeros += cols - static_cast<std::size_t>(end - at);
    if (at == end) continue;
    const auto here = static_cast<std::size_t>(at - row.begin());
    if (here < begin) return false;
    begin = here;
    ++rows;
  }
  return rows >= static_cast<std::size_t>(kBankRows) &&
         static_cast<double>(zeros) >= kBankZeros * static_cast<double>(values.size());
}

bool is_bank_or_transposed(std::span<const float> values, const std::vector<std::int64_t>& shape) {
  if (is_bank(values, shape)) return true;
  if (shape.size() != 2 || shape[1] < kBankRows) return false;
  // Quickly: three quarters of a few rows are 0.
  const std::size_t few = std::min<std::size_t>(values.size(), 4096);
  if (2 * static_cast<std::size_t>(
              std::count(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(few), 0.0F)) <
      few)
    return false;
  std::vector<float> turned(values.size());
  const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) turned[c * rows + r] = values[r * cols + c];
  return is_bank(turned, {shape[1], shape[0]});
}

bool is_integers(std::span<const float> values, bool line) {
  bool negative = false;
  for (const float value : values) {
    if (std::nearbyint(value) != value || std::fabs(value) > kLargestInteger) return false;
    negative = negative || value < 0;
  }
  return !negative || line;
}

}  // namespace

// Constant lines leave no residual and have no variance.
std::optional<PredictedLines> predicted_lines(std::span<const float> values,
                                              const std::vector<std::int64_t>& shape, DType dtype) {
  const auto size = static_cast<std::int64_t>(values.size());
  std::int64_t stride = size;
  for (const std::int64_t positions : shape) {
    stride /= positions;
    if (positions < kLeastPositions) continue;
    const Axis axis{positions, stride, size / positions};
    if (fit_lines(values, axis, std::min(kSampledLines, axis.lines)).holds(dtype) &&
        fit_lines(values, axis, axis.lines).holds(dtype))
      return PredictedLines{positions, stride};
  }
  return {};
}

bool is_structure(std::span<const float> values, const std::vector<std::int64_t>& shape,
                  DType dtype, bool line) {
  if (is_integers(values, line) || predicted_lines(values, shape, dtype)) return true;
  if (!line) return is_bank_or_transposed(values, shape);
  if (static_cast<std::int64_t>(values.size()) < kLeastPositions) return false;
  return is_monotone(values) || is_mirrored(values) || is_mirrored(values.subspan(1));
}

}  // namespace gbcompress
