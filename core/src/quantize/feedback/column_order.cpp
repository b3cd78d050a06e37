#include "quantize/feedback/column_order.h"

#include "codec/lanes/layout.h"

namespace gbcompress {

std::shared_ptr<const ColumnOrder> column_order(std::span<const IntegerGrid> matrices) {
  using codec::lanes::kLaneCount;
  const auto order = std::make_shared<ColumnOrder>();
  std::int64_t before = 0;  // columns of the matrices before
  for (const IntegerGrid& grid : matrices) {
    if (!grid.dependent) return nullptr;
    const codec::lanes::Shape shape(grid);
    if (grid.lanes && (grid.cols % kLaneCount != 0 || shape.width != grid.cols)) return nullptr;
    const std::int64_t apart = grid.lanes ? kLaneCount : 1;
    for (std::int64_t lane = 0; lane < apart; ++lane) {
      order->groups.push_back({static_cast<std::int64_t>(order->columns.size()), grid.cols / apart,
                               grid.lanes ? shape.block_lines : grid.rows});
      for (std::int64_t j = lane; j < grid.cols; j += apart) order->columns.push_back(before + j);
    }
    before += grid.cols;
  }
  return order;
}

std::vector<float> ordered(std::span<const float> square, std::span<const std::int64_t> order) {
  const std::size_t n = order.size();
  std::vector<float> moved(square.size());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      moved[i * n + j] =
          square[static_cast<std::size_t>(order[i]) * n + static_cast<std::size_t>(order[j])];
  return moved;
}

}  // namespace gbcompress
