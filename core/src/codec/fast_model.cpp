#include "codec/fast_model.h"

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
  state_ = QuantiserState(grid.dependent);
  if (grid.dependent && tables_.size() == kTables) add_tables();
  prior_ = prior;
  units_ = UnitScales(prior.empty() ? static_cast<std::size_t>(segments.cols()) : 16);
  columns_.resize(prior.empty() ? static_cast<std::size_t>(segments.longest()) : 0);
  for (std::size_t i = 0; i < columns_.size(); ++i)
    columns_[i] = static_cast<std::uint32_t>(i % static_cast<std::size_t>(segments.cols()));
}

void FastModel::leave(const Segment& segment) {
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    if (fresh_[table]) tables_[table].end_segment(fresh_[table]);
    fresh_[table] = 0;
  }
  scale_table_.end_segment(1);
  if (segment.finished_rows) units_.end_rows(segment.finished_rows);
}

}  // namespace gbcompress::codec
