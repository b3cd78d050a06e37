#pragma once
/// Rows that lose too much under error feedback get finer steps.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"
#include "quantize/feedback/rounding_model.h"
#include "quantize/row_sizes.h"

namespace GBC_INTERNAL gbcompress {

/// How often rows are rounded anew with finer steps, at most.
inline constexpr int kMostFiner = 16;

/// A matrix as it was rounded.
struct RoundedRows {
  const CodedValues& coded;
  std::span<const RowSize> sizes;
  std::span<const float> values, stored;  ///< [rows, cols]; what the integers stand for
};

/// Makes steps of rows finer that lose more than `most` of their squares.
/// @param counts     tells of such a row whether the loss counts
/// @param row_steps  offsets of steps, [rows], or empty: none
/// @return whether there are some
bool finer_rows(const RoundedRows& of, double most,
                const std::function<bool(std::size_t row)>& counts,
                std::vector<std::int32_t>& row_steps);

/// Whether a row has outputs farther from its own than zeros have. Errors of rows that make up for
/// each other mean nothing by themselves: with a factor of the rows never.
/// @param row     of the matrix
/// @param rows    of the matrix
/// @param values  of the row, [cols]
/// @param error   values minus what is stored, [cols]
bool is_worse_than_zeros(const RoundingModel& model, std::size_t row, std::int64_t rows,
                         std::span<const float> values, std::span<const float> error);

}  // namespace gbcompress
