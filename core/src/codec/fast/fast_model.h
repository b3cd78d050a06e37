#pragma once
/// Profile `fast`: what encoder and decoder both know between values.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/class_table.h"
#include "codec/scales.h"
#include "codec/trellis/quantizer_state.h"

namespace gbcompress::codec {

inline constexpr int kMostStep = 12;  ///< row scales that differ by more are escapes
inline constexpr int kScaleEscape = 2 * kMostStep + 1;
inline constexpr int kScaleBits = 7;  ///< of a row scale after an escape

/// Where the code of an escape begins: an exponential Golomb code of this order.
inline int escape_order(int table) {
  int order = 0;
  for (int range = table_range(table); range > 3; range >>= 1) ++order;
  return order;
}

class FastModel {
 public:
  explicit FastModel(bool decodes);

  void begin(const IntegerGrid& grid, const Segments& segments,
             std::span<const std::uint8_t> prior);
  void enter(const Segment& segment) {
    first_ = segment.first;
    first_column_ = static_cast<std::size_t>(segment.first_column);
  }
  void set_row_scale(int scale) {
    row_scale_ = scale;
    inverse_ = UnitScales::inverse_of(scale);
  }
  int row_scale() const { return row_scale_; }

  int unit_scale(std::size_t unit) const { return units_.scale(unit); }
  /// Column of a value of the segment, or its prior class where there are some.
  std::size_t unit(std::int64_t index) const {
    return prior_.empty() ? first_column_ + static_cast<std::size_t>((index - first_) % width_)
                          : prior_[static_cast<std::size_t>(index)];
  }
  /// Tables of quantizer 0 of all values of the segment, in order, and how many bits lie below
  /// their symbols. They hold until the next segment.
  struct Classes {
    std::span<const std::uint8_t> tables, shifts;
  };
  Classes classify(const Segment& segment);
  QuantizerState& state() { return state_; }
  ClassTable& table(int index) { return tables_[index]; }
  int range(int table) const { return ranges_[table]; }
  int order(int table) const { return orders_[table]; }
  ClassTable& scale_table() { return scale_table_; }

  /// A symbol of a table has passed.
  void count(int table) { ++fresh_[table]; }
  std::array<std::uint32_t, 2 * kTables>& fresh() { return fresh_; }
  /// The segment is over.
  /// @param values  of the whole tensor
  void leave(const Segment& segment, std::span<const std::int32_t> values);

 private:
  void add_tables();

  const bool decodes_;
  std::vector<ClassTable> tables_;  ///< of quantizer 0; then, once it is needed, of quantizer 1
  std::array<int, 2 * kTables> ranges_{}, orders_{};
  std::array<std::uint32_t, 2 * kTables> fresh_{};
  QuantizerState state_{false};
  ClassTable scale_table_;
  UnitScales units_{0};
  std::span<const std::uint8_t> prior_;
  std::vector<std::uint8_t> table_of_, shift_of_;  ///< of the segment's values
  std::int64_t first_ = 0, width_ = 1;             ///< a row's values that lie in a segment
  std::size_t first_column_ = 0;
  int row_scale_ = 0;
  std::uint64_t inverse_ = 0;
};

}  // namespace gbcompress::codec
