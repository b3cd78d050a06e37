#pragma once
/// One tensor on its way to integers times a step, without data.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"
#include "quantize/row_sizes.h"

namespace GBC_INTERNAL gbcompress {

/// The finest and the coarsest steps of one octave, in sixteenths.
inline constexpr int kStepsPerOctave = 16;

double squares_of(std::span<const float> values);
/// The index of step_size() at or below a size above 0; within its range.
int step_below(double size);
/// The coarsest step of a row of that root mean square whose error is about as large as it may be.
int coarsest_of_row(double rms, Quantizer quantizer);
/// By what the step of a row that loses too much is made finer, sixteenths of octaves.
inline constexpr int kFinerRow = 5;
/// The least index of a step in which magnitudes stay within kMaxMagnitude.
int finest_of_row(float largest);

/// Values in units of their rows' factors, and what integers are made of them.
class StepMatrix {
 public:
  /// No row has a coarser step than its size allows: the squared error of a row is at most half of
  /// the squares of its values but outliers.
  /// @param values     [grid.rows, grid.cols], finite, not all 0
  /// @param row_steps  empty, or what is added to the step's index in each row: multiples of 4
  /// @param sizes      of the rows; or empty: rows may lose everything
  StepMatrix(IntegerGrid grid, std::vector<float> values, std::vector<std::int32_t> row_steps,
             std::vector<RowSize> sizes = {});

  struct Chosen {
    CodedValues values;
    double relative_error = 0;  ///< squared error over squares
    double error = 0;           ///< sum of squared errors
  };
  /// @param step     index of step_size(); at least finest()
  /// @param threads  parts of large tensors are chosen side by side
  Chosen choose(int step, Quantizer quantizer, int threads) const;
  /// Values that all calls of choose() in this process had, together: the work of a run.
  static std::int64_t values_chosen() noexcept;
  /// The least index whose integers stay within kMaxMagnitude.
  int finest() const noexcept { return finest_; }
  const IntegerGrid& grid() const noexcept { return grid_; }
  const std::vector<std::int32_t>& row_steps() const noexcept { return row_steps_; }

 private:
  static constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();
  struct Attempt;
  std::size_t rows() const noexcept { return static_cast<std::size_t>(grid_.rows); }
  std::vector<std::int32_t> steps_of_rows(int step, std::span<const std::int32_t> limits) const;
  std::span<const float> in_steps(int step, std::span<const std::int32_t> steps,
                                  std::vector<float>& copy) const;
  Attempt attempt(int step, std::span<const std::int32_t> steps, Quantizer quantizer, int threads,
                  const std::vector<bool>& dropped = {}) const;
  std::vector<double> row_weights(int step, std::span<const std::int32_t> steps) const;
  bool drop_columns(const Attempt& attempt, int step, std::span<const std::int32_t> steps,
                    std::vector<bool>& dropped) const;
  bool tighten(const Attempt& attempt, std::span<const std::int32_t> steps,
               std::vector<std::int32_t>& limits) const;

  IntegerGrid grid_;
  std::vector<float> scaled_;            ///< values over 2^unit_ and over their rows' factors
  std::vector<std::int32_t> row_steps_;  ///< empty, or [rows]
  std::vector<RowSize> sizes_;           ///< empty, or [rows]
  float least_column_ = 0;               ///< rms of the smallest scaled column that is not 0
  std::vector<std::int32_t> least_;      ///< finest step of each row, [rows]
  std::vector<std::int32_t>
      lifts_;           ///< empty, or what scaled rows are larger, sixteenths of octaves
  int unit_ = 0;        ///< octaves
  double squares_ = 0;  ///< of the values
  int finest_ = kMinStep;
};

/// Whether a tensor of that shape is a stack of matrices, as of experts: three sides, the first the
/// least, the last larger than those of kernels.
bool is_stack(const std::vector<std::int64_t>& shape) noexcept;

/// What is known of a tensor before any step is chosen.
struct MatrixFacts {
  std::int64_t numbers = 0;
  double rms = 0;                       ///< root mean square of all but outliers of rows
  double squares = 0;                   ///< of all
  double least = 0;                     ///< rms of the smallest row that is not 0
  float largest = 0;                    ///< magnitude
  std::vector<std::int32_t> row_steps;  ///< offsets of its rows' steps, or empty
  std::vector<RowSize> sizes;           ///< of its rows
  /// Whether integers hold every row: an outlier may be too large for its row's step.
  bool fits = true;
};
/// @param sizes       of the grid's rows
/// @param slices      matrices of equally many rows that the tensor is a stack of
/// @param rows_apart  slices and rows have steps of their own: (slice's rms)^(3/4) and
///                    (row's rms over the slice's)^(1/2), in quarters of an octave
/// @param row_scales  empty, or what the output of each row is multiplied by later: where rows have
///                    steps of their own, the geometric mean of these and of the product's over
///                    the scale
MatrixFacts matrix_facts(const IntegerGrid& grid, std::vector<RowSize> sizes, bool rows_apart,
                         std::span<const float> row_scales = {}, std::int64_t slices = 1);

/// Some whole rows of a matrix (one piece of its only row), evenly spread over it.
/// @param most  numbers, at least
StepMatrix sample_of(const IntegerGrid& grid, std::span<const float> values,
                     const MatrixFacts& facts, std::int64_t most);
/// The same of a matrix of several rows, which are read one by one; nothing where all that are read
/// are 0.
/// @param read  read(row, values) sets a row's values
std::optional<StepMatrix> sample_of_rows(
    const IntegerGrid& grid,
    const std::function<void(std::size_t row, std::span<float> values)>& read,
    const MatrixFacts& facts, std::int64_t most);

}  // namespace gbcompress
