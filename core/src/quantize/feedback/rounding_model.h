#pragma once
/// Statistics of a matrix, made ready for rounding it.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/statistics.h"
#include "quantize/feedback/column_order.h"
#include "quantize/feedback/feedback.h"

namespace GBC_INTERNAL gbcompress {

/// Of one matrix, or of two that are rounded as one. Factors stay for all steps that are tried;
/// each takes as much memory as its moments.
struct RoundingModel {
  /// One, or one for each group of a grouped convolution: rows are divided evenly.
  std::vector<SecondOrder> groups;
  /// Dependent integers: the order of the only group's factor. Null: they are independent.
  std::shared_ptr<const ColumnOrder> order;
  /// Cost of a squared error of an element whose later elements compensate for it, over that of
  /// one without moments.
  double mean_square = 1;
  std::vector<std::int32_t> row_steps;  ///< by importance, [rows], or empty
  double row_cost = 1;                  ///< of errors with row_steps, over that of equal steps
  std::vector<float> input_mean;        ///< [groups, cols], or empty
  /// A row's pieces, of equally many columns, each of which is rounded by itself: the factor of
  /// the columns is that of a piece.
  std::int64_t pieces = 1;
  /// The second of two matrices that are rounded as one: its place in the allocation.
  std::optional<std::size_t> second;

  /// Whether errors move later elements. Else integers are chosen as without data.
  bool has_feedback() const noexcept;
};

/// How the factor of a matrix is made.
struct FactorSetup {
  /// In which dependent integers are chosen where the moments allow it; or null.
  std::shared_ptr<const ColumnOrder> order = nullptr;
  /// Of the same moments in the same order, as matrices with one input have; or null.
  std::shared_ptr<const UpperFactor> columns = nullptr;
  int threads = 1;
};

inline bool any_moments(const TensorStatistics& of) noexcept {
  return !of.input_moment.empty() || !of.output_moment.empty();
}

/// Whether integers of the tensor may depend on each other: it has moments of its columns, and all
/// rows have the same.
bool dependent(const TensorStatistics& statistics, const StatisticsUse& use);

/// Squared gradients of parts of a matrix as those of its rows: parts of a row add up, and rows of
/// one part share it evenly.
/// @param told  a multiple or a divisor of the rows, or empty
std::vector<float> importance_of_rows(std::span<const float> told, std::int64_t rows);

/// @param name  of the matrix, for messages
/// @param rows, cols  of the matrix, or of both side by side
/// @param importance  [rows], importance_of_rows(); or empty
/// @throws Error(kShapeMismatch) where a member does not fit; Error(kNonFinite)
RoundingModel rounding_model(const std::string& name, const TensorStatistics& statistics,
                             std::int64_t rows, std::int64_t cols,
                             std::span<const float> importance, const StatisticsUse& use,
                             FactorSetup setup = {});

/// What the error of one row costs, rows by themselves.
/// @param row    of the matrix; it decides the group
/// @param rows   of the matrix
/// @param error  [cols], in the order of the matrix
double row_loss(const RoundingModel& model, std::size_t row, std::int64_t rows,
                std::span<const float> error);

/// Integers of [rows, cols] values for a step, at most half of whose cost (that of zeros) is lost;
/// finer ones where the step asks for more. Values may have any magnitude that float32 has.
/// @param rounding  what is asked; its row_steps are those of the model where it has some
CodedValues round_within(const IntegerGrid& grid, std::span<const float> values,
                         const RoundingModel& model, Rounding rounding);

}  // namespace gbcompress
