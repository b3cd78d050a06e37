#include "gbcompress/dataset.h"

#include <ATen/ATen.h>

#include "gbcompress/error.h"

namespace gbcompress {

Batch Dataset::gather(const std::vector<std::int64_t>& indices) const {
  for (std::int64_t index : indices)
    if (index < 0 || index >= size())
      throw Error(Errc::kUsage, "row " + std::to_string(index) + " of a split of " +
                                    std::to_string(size()) + " rows does not exist");
  const at::Tensor rows = at::tensor(indices, at::kLong);
  return {inputs_.index_select(0, rows), targets_.index_select(0, rows)};
}

Batch Dataset::range(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > size() || count > size() - first)
    throw Error(Errc::kUsage, std::to_string(count) + " rows from row " + std::to_string(first) +
                                  " on do not lie in a split of " + std::to_string(size()));
  return {inputs_.narrow(0, first, count), targets_.narrow(0, first, count)};
}

}  // namespace gbcompress
