#include "gbcompress/model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "gbcompress/error.h"

namespace gbcompress {

std::vector<std::int64_t> Dataset::rows_of(std::vector<std::int64_t> rows) const {
  for (std::int64_t& row : rows) {
    if (row < 0 || row >= size())
      throw Error(Errc::kUsage, "row " + std::to_string(row) + " of a split of " +
                                    std::to_string(size()) + " rows does not exist");
    if (rows_) row = (*rows_)[static_cast<std::size_t>(row)];
  }
  return rows;
}

Batch Dataset::gather(const std::vector<std::int64_t>& indices) const {
  return delivered(selected(rows_of(indices)));
}

Batch Dataset::selected(const std::vector<std::int64_t>& rows) const {
  const at::Tensor index = at::tensor(rows, at::kLong).to(inputs_.device());
  return {inputs_.index_select(0, index), targets_.index_select(0, index)};
}

Batch Dataset::delivered(Batch batch) const {
  if (device_.is_cpu()) return batch;
  for (at::Tensor* tensor : {&batch.inputs, &batch.targets}) {
    if (device_.is_cuda() && tensor->device().is_cpu()) *tensor = tensor->pin_memory();
    *tensor = tensor->to(device_, /*non_blocking=*/device_.is_cuda());
  }
  return batch;
}

Batch Dataset::range(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > size() || count > size() - first)
    throw Error(Errc::kUsage, std::to_string(count) + " rows from row " + std::to_string(first) +
                                  " on do not lie in a split of " + std::to_string(size()));
  if (!rows_) return delivered({inputs_.narrow(0, first, count), targets_.narrow(0, first, count)});
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return gather(rows);
}

Batch Dataset::everything() const {
  const Batch all = rows_ ? selected(*rows_) : Batch{inputs_, targets_};
  return {all.inputs.to(at::kCPU), all.targets.to(at::kCPU)};
}

std::int64_t Dataset::predictions() const {
  if (size() == 0) return 1;
  const at::Tensor one = targets_.narrow(0, 0, 1);
  return std::max<std::int64_t>(1, has_classes() ? one.numel() : one.numel() / one.size(-1));
}

bool Dataset::has_classes() const { return at::isIntegralType(targets_.scalar_type(), false); }

Dataset Dataset::subset(const std::vector<std::int64_t>& indices) const {
  return {inputs_, targets_, rows_of(indices), device_};
}

}  // namespace gbcompress
