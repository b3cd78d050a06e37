#pragma once
/// Sums of scaled rows, for the processor at hand. Each number is multiplied and added by itself
/// and rounded twice, so that all processors give the same bits.

#include <cstdint>

namespace gbcompress {

/// to[i] += factor * from[i] for i < count.
void add_scaled(double* to, const double* from, double factor, std::int64_t count);

/// to[k][i] = from[k][i] + factors[i] * errors[k] for k < rows, i < count. A row of `to` may be
/// none of `from`.
void add_errors(float* const* to, const float* const* from, const float* errors,
                const float* factors, std::int64_t rows, std::int64_t count);

/// What errors of several numbers add, those of one after those of another.
struct ErrorRun {
  const float* errors;  ///< [run, stride], of a number: one for each row
  std::int64_t stride;
  const float* factors;  ///< [run, line]
  std::int64_t line;
  std::int64_t run;
};
/// add_errors() once for each number of a run, with the same bits:
/// to[k][i] = from[k][i] + factors[0][i] * errors[0][k] + factors[1][i] * errors[1][k] + ...
void add_error_runs(float* const* to, const float* const* from, const ErrorRun& of,
                    std::int64_t rows, std::int64_t count);

/// Rows that add_outer() has side by side.
constexpr std::int64_t kOuterWidth = 16;
/// to[16 i + b] += factors[i] * of_rows[b] for i < count, b < 16.
void add_outer(float* to, const float* factors, const float* of_rows, std::int64_t count);
/// Columns of factors that add_outers() has side by side.
constexpr std::int64_t kOuterPanel = 8;
/// add_outer() `outers` times, with the same bits: to[16 i + b] += factors of i, k * of_rows[16 k +
/// b] for k < outers in this order.
/// @param factors  [panels of 8 columns i, outers, 8]; the last panel is filled up with any numbers
void add_outers(float* to, const float* factors, const float* of_rows, std::int64_t outers,
                std::int64_t count);

}  // namespace gbcompress
