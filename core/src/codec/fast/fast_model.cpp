#include "codec/fast/fast_model.h"

#include <algorithm>

namespace gbcompress::codec {
namespace {

std::vector<std::uint32_t> step_weights() {
  std::vector<std::uint32_t> weights(kScaleEscape + 1, 1);
  for (int step = -kMostStep; step <= kMostStep; ++step)
    weights[kMostStep + step] = 4096u >> std::abs(step);
  weights[kScaleEscape] = 64;
  return weights;
}

}  // namespace

FastModel::FastModel(bool decodes) : decodes_(decodes), scale_table_(step_weights(), decodes) {
  add_tables();
}

void FastModel::add_tables() {
  tables_.reserve(tables_.size() + kTables);
  for (int table = 0; table < kTables; ++table) {
    const std::size_t at = tables_.size();
    tables_.emplace_back(first_weights(table), decodes_);
    ranges_[at] = table_range(table);
    orders_[at] = escape_order(table);
  }
}

void FastModel::begin(const IntegerGrid& grid, const Segments& segments,
                      std::span<const std::uint8_t> prior) {
  state_ = QuantizerState(grid.dependent);
  if (grid.dependent && tables_.size() == kTables) add_tables();
  prior_ = prior;
  units_ = UnitScales(prior.empty() ? static_cast<std::size_t>(segments.cols()) : 16);
  width_ = segments.cols();
}

namespace {

/// A class of a scale that is the sum of a row's, in quarters, and a unit's: table, shift << 8.
const std::array<std::uint16_t, kScales>& classes_by_scale() {
  static const auto classes = [] {
    std::array<std::uint16_t, kScales> result{};
    for (int scale = kLeastScale; scale <= kMostScale; ++scale) {
      const ScaleClass found = scale_class(scale);
      result[static_cast<std::size_t>(scale - kLeastScale)] =
          static_cast<std::uint16_t>(found.table | found.shift << 8);
    }
    return result;
  }();
  return classes;
}

}  // namespace

FastModel::Classes FastModel::classify(const Segment& segment) {
  const auto count = static_cast<std::size_t>(segment.last - segment.first);
  table_of_.resize(count);
  shift_of_.resize(count);
  const auto& classes = classes_by_scale();
  const auto classify = [&](std::size_t i, int unit_scale) {
    const int scale =
        std::clamp((4 * row_scale_ + unit_scale + 2) >> 2, kLeastScale, kMostScale) - kLeastScale;
    table_of_[i] = static_cast<std::uint8_t>(classes[static_cast<std::size_t>(scale)]);
    shift_of_[i] = static_cast<std::uint8_t>(classes[static_cast<std::size_t>(scale)] >> 8);
  };
  if (!prior_.empty()) {
    for (std::size_t i = 0; i < count; ++i)
      classify(i, units_.scale(prior_[static_cast<std::size_t>(segment.first) + i]));
    return {table_of_, shift_of_};
  }
  const std::size_t width = std::min(count, static_cast<std::size_t>(width_));
  const std::span<const std::int8_t> scales = units_.scales(first_column_, width);
  for (std::size_t i = 0; i < width; ++i) classify(i, scales[i]);
  for (std::size_t i = width; i < count; ++i) {  // further rows are alike
    table_of_[i] = table_of_[i - width];
    shift_of_[i] = shift_of_[i - width];
  }
  return {table_of_, shift_of_};
}

void FastModel::leave(const Segment& segment, std::span<const std::int32_t> values) {
  const auto first = static_cast<std::size_t>(segment.first);
  const auto count = static_cast<std::size_t>(segment.last - segment.first);
  if (prior_.empty()) {
    const auto width = static_cast<std::size_t>(width_);
    for (std::size_t i = 0; i < count; i += width)
      units_.saw(first_column_, values.subspan(first + i, std::min(width, count - i)), inverse_);
  } else {
    for (std::size_t i = first; i < first + count; ++i) units_.saw(prior_[i], values[i], inverse_);
  }
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    if (fresh_[table]) tables_[table].end_segment(fresh_[table]);
    fresh_[table] = 0;
  }
  scale_table_.end_segment(1);
  if (segment.finished_rows) units_.end_rows(segment.finished_rows);
}

}  // namespace gbcompress::codec
