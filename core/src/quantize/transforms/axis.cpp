#include "quantize/transforms/axis.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "artifact/integers/transform.h"
#include "gbcompress/codec.h"
#include "quantize/matrix.h"

namespace gbcompress {
namespace {

/// Shorter sides than this have no waves to speak of.
constexpr std::int64_t kLeastUseful = 8;
/// Numbers of a sample, at least one line of each.
constexpr std::int64_t kSample = 1 << 15;
/// Bytes of the header's key.
constexpr double kSavedBytes = 16;
/// Share of the bits by a quick estimate, before anything is coded: most tensors fail here.
constexpr double kPromising = 0.99;
/// The same of pieces of lines, and their positions.
constexpr double kPromisingPieces = 0.995;
constexpr std::int64_t kLongestPiece = 64, kLeastPiece = 16;
/// Cosines do not leave zeros what they are, but in lines of zeros: so few may lie elsewhere, of
/// any values; and of waves, so few that are no part of the wave.
constexpr double kFewZeros = 0.05;
/// Share of the bits that they save at least where they move more.
constexpr double kSavedWithZeros = 0.25;
/// Finer than this the rounding of cosines to float32 would show.
constexpr double kFinestError = 1e-9;

/// Some lines of a tensor, as a tensor of [rows, ..., side, ...] or [side, columns].
struct Lines {
  std::vector<float> values;
  std::vector<std::int64_t> shape;
};

/// Evenly spread slices of the first dimension, whose lines lie inside of them.
Lines some_rows(std::span<const float> values, const std::vector<std::int64_t>& shape) {
  Lines lines{{}, shape};
  const std::int64_t rows = shape[0], cols = static_cast<std::int64_t>(values.size()) / rows;
  lines.shape[0] = std::clamp<std::int64_t>(kSample / cols, 1, rows);
  for (std::int64_t i = 0; i < lines.shape[0]; ++i) {
    const auto row = values.subspan(static_cast<std::size_t>(i * rows / lines.shape[0] * cols),
                                    static_cast<std::size_t>(cols));
    lines.values.insert(lines.values.end(), row.begin(), row.end());
  }
  return lines;
}

/// Evenly spread lines along the first dimension.
Lines some_columns(std::span<const float> values, const std::vector<std::int64_t>& shape) {
  const std::int64_t rows = shape[0], cols = static_cast<std::int64_t>(values.size()) / rows;
  const std::int64_t count = std::clamp<std::int64_t>(kSample / rows, 1, cols);
  Lines lines{{}, {rows, count}};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < count; ++i)
      lines.values.push_back(values[static_cast<std::size_t>(r * cols + i * cols / count)]);
  return lines;
}

/// About the bits of each number by itself.
double single_bits(std::span<const float> values, double step) {
  double bits = 0;
  for (const float value : values)
    bits += std::log2(1 + std::fabs(static_cast<double>(value)) / step);
  return bits;
}

double coded_bits(const Lines& lines, double step) {
  IntegerGrid grid{lines.shape[0], 1, 0};
  grid.cols = static_cast<std::int64_t>(lines.values.size()) / grid.rows;
  std::vector<std::int32_t> integers;
  for (const float value : lines.values)
    integers.push_back(
        static_cast<std::int32_t>(std::clamp(std::nearbyint(static_cast<double>(value) / step),
                                             -1.0 * kMaxMagnitude, 1.0 * kMaxMagnitude)));
  return estimated_bits(CodecProfile::kLanes, grid, integers);
}

/// Whether cosines of short pieces of the lines along `axis` save bits: waves of a side bend its
/// pieces too, whose cosines take a small part of the time.
bool pieces_promise(const Lines& lines, int axis, double step) {
  const auto at = static_cast<std::size_t>(axis);
  std::int64_t piece = kLongestPiece;
  while (piece >= kLeastPiece && lines.shape[at] % piece != 0) --piece;
  if (piece < kLeastPiece || lines.shape[at] < 2 * kLongestPiece) return true;
  std::vector<std::int64_t> shape = lines.shape;
  shape[at] = piece;
  shape.insert(shape.begin() + axis, lines.shape[at] / piece);
  return single_bits(to_cosines(lines.values, shape, axis + 1), step) <=
         kPromisingPieces * single_bits(lines.values, step);
}

/// What share of the bits cosines along `axis` save, or 0.
double saved_share(std::span<const float> values, const std::vector<std::int64_t>& shape, int axis,
                   double step) {
  const Lines lines = axis == 0 ? some_columns(values, shape) : some_rows(values, shape);
  if (!pieces_promise(lines, axis, step)) return 0;
  const Lines cosines{to_cosines(lines.values, lines.shape, axis), lines.shape};
  if (single_bits(cosines.values, step) > kPromising * single_bits(lines.values, step)) return 0;
  const double before = coded_bits(lines, step), after = coded_bits(cosines, step);
  const double bytes = (before - after) / 8 * static_cast<double>(values.size()) /
                       static_cast<double>(lines.values.size());
  return bytes < kSavedBytes ? 0 : 1 - after / before;
}

/// Zeros that cosines along an axis would move.
struct MovedZeros {
  bool row = false;  ///< a row of zeros, along the first dimension
  double all = 0;    ///< share of the elements
  double edges = 0;  ///< of them, those that are no part of a wave
};

/// Counts the zeros of one line. A wave passes through 0 between values of opposite signs, and is 0
/// beside values that are 0 at that step; other zeros are edges.
/// @param at    the line's elements, lying `stride` apart
/// @param step  over the rms of the tensor; a line of smaller values has a smaller one
void count_zeros(const float* at, std::size_t side, std::size_t stride, double rms, double step,
                 MovedZeros& zeros) {
  const auto value = [&](std::size_t i) { return static_cast<double>(at[i * stride]); };
  double squares = 0;
  for (std::size_t i = 0; i < side; ++i) squares += value(i) * value(i);
  step *= std::min(rms, std::sqrt(squares / static_cast<double>(side)));
  for (std::size_t i = 0; i < side; ++i) {
    const std::size_t first = i;
    while (i < side && value(i) == 0) ++i;
    const std::size_t run = i - first;
    if (run == 0) continue;
    if (run == side) return;
    const double before = first > 0 ? value(first - 1) : 0, after = i < side ? value(i) : 0;
    const bool passes = run == 1 && before * after < 0;
    const bool ends = std::max(std::fabs(before), std::fabs(after)) <= step;
    zeros.all += static_cast<double>(run);
    if (!passes && !ends) zeros.edges += static_cast<double>(run);
  }
}

/// @param rms, step  of the tensor
MovedZeros moved_zeros(std::span<const float> values, const std::vector<std::int64_t>& shape,
                       int axis, double rms, double step) {
  std::size_t side = 1, inner = 1;
  for (std::size_t d = shape.size(); d-- > static_cast<std::size_t>(axis);)
    (d == static_cast<std::size_t>(axis) ? side : inner) *= static_cast<std::size_t>(shape[d]);
  MovedZeros zeros;
  for (std::size_t first = 0; first < values.size(); first += side * inner) {
    for (std::size_t k = 0; k < inner; ++k)
      count_zeros(values.data() + first + k, side, inner, rms, step / rms, zeros);
    for (std::size_t i = 0; axis == 0 && inner > 1 && i < side; ++i)
      zeros.row = zeros.row || squares_of(values.subspan(i * inner, inner)) == 0;
  }
  zeros.all /= static_cast<double>(values.size());
  zeros.edges /= static_cast<double>(values.size());
  return zeros;
}

/// Whether cosines that save so much of the bits may move the zeros.
bool may_move(const MovedZeros& zeros, double saved) {
  return !zeros.row && zeros.edges <= kFewZeros &&
         (zeros.all <= kFewZeros || saved >= kSavedWithZeros);
}

}  // namespace

int cosine_axis(std::span<const float> values, const std::vector<std::int64_t>& shape,
                double relative_error, double least_saved) {
  const double squares = squares_of(values);
  if (squares == 0 || relative_error < kFinestError) return -1;
  // Integers times a step of D have an error of D^2 / 12 a number.
  const double step = std::sqrt(12 * relative_error * squares / static_cast<double>(values.size()));
  const double rms = std::sqrt(squares / static_cast<double>(values.size()));
  int best = -1;
  double most = least_saved;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (!has_transform(shape, axis) || shape[static_cast<std::size_t>(axis)] < kLeastUseful)
      continue;
    const double share = saved_share(values, shape, axis, step);
    if (share <= most || !may_move(moved_zeros(values, shape, axis, rms, step), share)) continue;
    most = share;
    best = axis;
  }
  return best;
}

}  // namespace gbcompress
