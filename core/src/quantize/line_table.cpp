// Factors and offsets of lines whose elements are predicted from the two before.
#include <cmath>
#include <cstring>

#include "artifact/sections/line_prediction.h"
#include "quantize/levels.h"

namespace gbcompress {
namespace {

/// Bits of a residual and of a number of the table, about.
constexpr double kResidualBits = 6, kNumberBits = 28;

std::uint64_t bits_of(double value) {
  const auto number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

/// Least squares of x[i - 1] + x[i + 1] over x[i] along a line.
struct LineFit {
  double factor = 2, offset = 0;
};

LineFit fit_of(std::span<const float> values, std::size_t first, std::size_t positions,
               std::size_t stride) {
  const auto at = [&](std::size_t i) { return static_cast<double>(values[first + i * stride]); };
  double mean = 0, middle = 0;
  const auto n = static_cast<double>(positions - 2);
  for (std::size_t i = 1; i + 1 < positions; ++i) {
    mean += at(i) / n;
    middle += (at(i - 1) + at(i + 1)) / n;
  }
  double xx = 0, xy = 0;
  for (std::size_t i = 1; i + 1 < positions; ++i) {
    const double x = at(i) - mean;
    xx += x * x;
    xy += x * (at(i - 1) + at(i + 1) - middle);
  }
  LineFit fit;
  if (xx > 0 && std::isfinite(xx)) fit.factor = static_cast<double>(static_cast<float>(xy / xx));
  fit.offset = middle - fit.factor * mean;
  return fit;
}

}  // namespace

std::optional<LevelTable> line_table(const TensorEntry& tensor, std::span<const float> values,
                                     const PredictedLines& lines) {
  if (tensor.dtype == DType::kF64) return {};
  LevelTable table{
      .form = {.dtype = tensor.dtype, .positions = lines.positions, .stride = lines.stride}};
  const auto positions = static_cast<std::size_t>(lines.positions);
  const auto stride = static_cast<std::size_t>(lines.stride);
  const std::size_t count = values.size() / positions;
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  table.numbers.resize(static_cast<std::size_t>(kLineNumbers) * count);
  for (std::size_t line = 0; line < count; ++line) {
    const std::size_t first = line / stride * stride * positions + line % stride;
    const LineFit fit = fit_of(values, first, positions, stride);
    table.numbers[line] = bits_of(fit.factor);
    table.numbers[count + line] = bits_of(fit.offset);
    for (std::size_t i = 0; i < 2; ++i)
      std::memcpy(&table.numbers[(2 + i) * count + line],
                  tensor.bytes.data() + (first + i * stride) * size, size);
  }
  table.bits = kResidualBits * static_cast<double>(values.size()) +
               kNumberBits * static_cast<double>(table.numbers.size());
  return table;
}

}  // namespace gbcompress
