#pragma once
/// Tensors of few values, or of small integers times factors: the table that tells them bit for
/// bit, and what that takes.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"
#include "quantize/structure.h"

namespace GBC_INTERNAL gbcompress {

struct LevelTable {
  LevelForm form;
  std::vector<std::uint64_t> numbers;  ///< of level_table(): a palette ascends
  int offset = 0;                      ///< CodedValues::step
  double bits = 0;                     ///< of integers and table together, about
  struct Level {
    double value;  ///< of factors in units of their root mean square
    std::int64_t count;
  };
  std::vector<Level> levels;  ///< how often each value occurs, ascending
};

/// Nothing where a sample or the whole tensor has too many values.
/// @param tensor      of a real type, not empty
/// @param values      its float32 values
/// @param zero_signs  whether -0 stays apart from 0
std::optional<LevelTable> find_levels(const TensorEntry& tensor, std::span<const float> values,
                                      bool zero_signs);

/// The table of lines that are predicted, for a tensor of predicted_lines(); nothing for F64 and
/// where integers get too large.
std::optional<LevelTable> line_table(const TensorEntry& tensor, std::span<const float> values,
                                     const PredictedLines& lines);

/// The tensor's integers beside the table, or nothing where they do not tell it bit for bit, but
/// for the signs of zeros if the table has none.
std::optional<CodedValues> coded_levels(const LevelTable& table, const TensorEntry& tensor,
                                        std::span<const float> values);

/// A tensor with a palette as coded_levels() made it, with a table in which the levels that occur
/// most have the smallest integers.
CodedValues in_order_of_frequency(const CodedValues& coded, const LevelTable& table);

/// Bits of the values' multiples of a step, each rounded to the nearest: what the tensor would take
/// with that step.
/// @param step  above 0, in units of the values' root mean square
double rounded_bits(const LevelTable& table, double step);

}  // namespace gbcompress
