#pragma once
/// About what integers take in a file.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/estimate/class_table.h"
#include "codec/estimate/scales.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec {

/// What is known of a tensor's values while their size is estimated.
class SizeModel {
 public:
  SizeModel(const IntegerGrid& grid, std::int64_t cols);

  /// What the values of a segment take, bits.
  /// @param values  of the whole tensor
  double pass(const Segment& segment, std::span<const std::int32_t> values);

 private:
  void add_tables();
  int fitting_scale(const Segment& segment, std::span<const std::int32_t> values) const;
  double scale_bits(int scale);
  void classify(const Segment& segment);
  double value_bits(ScaleClass kind, int value);
  void learn(const Segment& segment, std::span<const std::int32_t> values);

  std::vector<ClassTable> tables_;  ///< of quantizer 0; of dependent grids, then of quantizer 1
  std::array<int, 2 * kTables> ranges_{}, orders_{};
  std::array<std::uint32_t, 2 * kTables> fresh_{};
  QuantizerState state_;
  ClassTable scale_table_;
  UnitScales columns_;
  std::vector<ScaleClass> classes_;  ///< of the segment's values
  std::size_t width_;                ///< a row's values
  int row_scale_ = 0;
};

/// Bits of integers under scales of their rows and columns and tables that adapt, about what a file
/// of the profile lanes spends on them. No processor's choice depends on it but an encoder's.
/// @param values  [rows, cols]
double estimate_bits(const IntegerGrid& grid, std::span<const std::int32_t> values);

}  // namespace gbcompress::codec
