#include "quantize/feedback/finer_rows.h"

#include <algorithm>
#include <cmath>

#include "quantize/matrix.h"

namespace gbcompress {
namespace {

/// Sixteenths of an octave that take away so many times the error that may be.
int finer_by(double share) {
  constexpr double kFar = 4096;
  return std::max(kFinerRow, static_cast<int>(std::ceil(kStepsPerOctave / 2.0 *
                                                        std::log2(std::min(share, kFar)))));
}

}  // namespace

bool finer_rows(const RoundedRows& of, double most,
                const std::function<bool(std::size_t row)>& counts,
                std::vector<std::int32_t>& row_steps) {
  bool finer = false;
  for (const RowLoss& loss : rows_beyond(of.coded.grid, of.sizes, of.values, of.stored, most)) {
    if (!counts(loss.row)) continue;
    row_steps.resize(static_cast<std::size_t>(of.coded.grid.rows));
    std::int32_t& own = row_steps[loss.row];
    own = std::min(own - finer_by(loss.share / most),
                   coarsest_of_row(of.sizes[loss.row].rms, Quantizer::kNearest) - of.coded.step);
    finer = true;
  }
  return finer;
}

bool is_worse_than_zeros(const RoundingModel& model, std::size_t row, std::int64_t rows,
                         std::span<const float> values, std::span<const float> error) {
  if (model.groups[0].rows) return false;
  return row_loss(model, row, rows, error) > row_loss(model, row, rows, values);
}

}  // namespace gbcompress
