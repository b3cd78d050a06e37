#include "codec/estimate/size_model.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codec/small/logistic.h"

namespace gbcompress::codec {
namespace {

constexpr int kMostStep = 12;  // row scales that differ by more are escapes
constexpr int kScaleEscape = 2 * kMostStep + 1;
constexpr int kScaleBits = 7;  // of a row scale after an escape

std::vector<std::uint32_t> step_weights() {
  std::vector<std::uint32_t> weights(kScaleEscape + 1, 1);
  for (int step = -kMostStep; step <= kMostStep; ++step)
    weights[kMostStep + step] = 4096u >> std::abs(step);
  weights[kScaleEscape] = 64;
  return weights;
}

/// Order of the exponential Golomb code of values beyond a table.
int escape_order(int table) {
  int order = 0;
  for (int range = table_range(table); range > 3; range >>= 1) ++order;
  return order;
}

}  // namespace

SizeModel::SizeModel(const IntegerGrid& grid, std::int64_t cols)
    : state_(grid.dependent),
      scale_table_(step_weights()),
      columns_(static_cast<std::size_t>(cols)),
      width_(static_cast<std::size_t>(cols)) {
  add_tables();
  if (grid.dependent) add_tables();
}

void SizeModel::add_tables() {
  for (int table = 0; table < kTables; ++table) {
    const std::size_t at = tables_.size();
    tables_.emplace_back(first_weights(table));
    ranges_[at] = table_range(table);
    orders_[at] = escape_order(table);
  }
}

double SizeModel::pass(const Segment& segment, std::span<const std::int32_t> values) {
  double bits = scale_bits(fitting_scale(segment, values));
  classify(segment);
  for (std::int64_t i = segment.first; i < segment.last; ++i) {
    ScaleClass kind = classes_[static_cast<std::size_t>(i - segment.first)];
    kind.table += kTables * static_cast<int>(state_.quantizer());
    const std::int32_t value = values[static_cast<std::size_t>(i)];
    bits += value_bits(kind, value);
    state_.pass(value);
  }
  learn(segment, values);
  return bits;
}

/// The row scale under which these values, relative to their columns, have mean magnitude 1.
int SizeModel::fitting_scale(const Segment& segment, std::span<const std::int32_t> values) const {
  std::uint64_t sum = 0, expected = 0;  // units of 2^-16
  std::size_t column = static_cast<std::size_t>(segment.first_column);
  for (std::int64_t i = segment.first; i < segment.last; ++i) {
    sum += static_cast<std::uint64_t>(std::abs(values[static_cast<std::size_t>(i)])) << 16;
    expected += power(columns_.scale(column));
    if (++column == width_) column = 0;
  }
  const Logistic& tables = Logistic::tables();
  const int octaves = tables.log2(sum + 1) - tables.log2(expected + 1);  // units of 2^-8
  return std::clamp((octaves + 32) >> 6, kLeastScale, kMostScale);
}

double SizeModel::scale_bits(int scale) {
  const int step = scale - row_scale_;
  const bool far = std::abs(step) > kMostStep;
  const int symbol = far ? kScaleEscape : step + kMostStep;
  scale_table_.saw(symbol);
  row_scale_ = scale;
  return scale_table_.bits(symbol) + (far ? kScaleBits : 0);
}

void SizeModel::classify(const Segment& segment) {
  classes_.resize(static_cast<std::size_t>(segment.last - segment.first));
  const std::size_t width = std::min(classes_.size(), width_);
  for (std::size_t i = 0; i < width; ++i) {
    const int scale = columns_.scale(static_cast<std::size_t>(segment.first_column) + i);
    classes_[i] =
        scale_class(std::clamp((4 * row_scale_ + scale + 2) >> 2, kLeastScale, kMostScale));
  }
  for (std::size_t i = width; i < classes_.size(); ++i)  // further rows are alike
    classes_[i] = classes_[i - width];
}

double SizeModel::value_bits(ScaleClass kind, int value) {
  const auto at = static_cast<std::size_t>(kind.table);
  const int high = value >> kind.shift, range = ranges_[at], order = orders_[at];
  ClassTable& table = tables_[at];
  ++fresh_[at];
  const bool escapes = high < -range || high > range;
  const int symbol = escapes ? 2 * range + 1 : high + range;
  table.saw(symbol);
  const double bits = table.bits(symbol) + kind.shift;
  if (!escapes) return bits;
  const auto beyond = static_cast<std::uint32_t>(std::abs(high) - range - 1);
  return bits + 2 * (std::bit_width(beyond + (1u << order)) - 1) - order + 2;
}

void SizeModel::learn(const Segment& segment, std::span<const std::int32_t> values) {
  const std::uint64_t inverse = UnitScales::inverse_of(row_scale_);
  std::size_t column = static_cast<std::size_t>(segment.first_column);
  for (std::int64_t i = segment.first; i < segment.last; ++i) {
    columns_.saw(column, values[static_cast<std::size_t>(i)], inverse);
    if (++column == width_) column = 0;
  }
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    if (fresh_[table]) tables_[table].end_segment(fresh_[table]);
    fresh_[table] = 0;
  }
  scale_table_.end_segment(1);
  if (segment.finished_rows) columns_.end_rows(segment.finished_rows);
}

double estimate_bits(const IntegerGrid& grid, std::span<const std::int32_t> values) {
  Segments segments(grid);
  SizeModel model(grid, segments.cols());
  double bits = 0;
  for (Segment segment; segments.next(segment);) bits += model.pass(segment, values);
  return bits;
}

}  // namespace gbcompress::codec
