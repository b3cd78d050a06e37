#pragma once
/// One tensor on its way to integers times a step, without data.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"

namespace GBC_INTERNAL gbcompress {

/// The finest and the coarsest steps of one octave, in sixteenths.
inline constexpr int kStepsPerOctave = 16;

double squares_of(std::span<const float> values);

/// Values in units of their rows' factors, and what integers are made of them.
class StepMatrix {
 public:
  /// @param values     [grid.rows, grid.cols], finite, not all 0
  /// @param row_steps  empty, or what is added to the step's index in each row: multiples of 4
  StepMatrix(IntegerGrid grid, std::vector<float> values, std::vector<std::int32_t> row_steps);

  struct Chosen {
    CodedValues values;
    double relative_error = 0;  ///< squared error over squares
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
  IntegerGrid grid_;
  std::vector<float> scaled_;            ///< values over their rows' factors
  std::vector<std::int32_t> row_steps_;  ///< empty, or [rows]
  std::vector<double> row_weights_;      ///< squares of the factors; empty: 1 everywhere
  double squares_ = 0;
  int finest_ = kMinStep;
};

/// What is known of a tensor before any step is chosen.
struct MatrixFacts {
  std::int64_t numbers = 0;
  double rms = 0;                       ///< root mean square
  std::vector<std::int32_t> row_steps;  ///< offsets of its rows' steps, or empty
  double squares() const noexcept { return rms * rms * static_cast<double>(numbers); }
};
/// @param rows_apart  rows have steps of their own: (row's rms)^(1/2), in quarters of an octave
/// @param row_scales  empty, or what the output of each row is multiplied by later: where rows have
///                    steps of their own, the geometric mean of these and of the product's over
///                    the scale
MatrixFacts matrix_facts(const IntegerGrid& grid, std::span<const float> values, bool rows_apart,
                         std::span<const float> row_scales = {});

/// Some whole rows of a matrix (one piece of its only row), evenly spread over it.
/// @param most  numbers, at least
StepMatrix sample_of(const IntegerGrid& grid, std::span<const float> values,
                     std::span<const std::int32_t> row_steps, std::int64_t most);

}  // namespace gbcompress
