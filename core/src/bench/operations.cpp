#include "gbcompress/bench.h"
#include "gbcompress/error.h"

namespace gbcompress {

WeightOperations weight_operations(const std::vector<std::int64_t>& hidden) {
  if (hidden.empty()) throw Error(Errc::kUsage, "a g-net needs a hidden layer");
  const auto width = [&](std::size_t l) { return static_cast<double>(hidden[l]); };
  // One hidden layer: maximum and multiply-add; back, a comparison and two masked additions.
  if (hidden.size() == 1) return {2 * width(0), 3 * width(0)};
  // Deeper: addition and maximum of the first layer, products and maximum of the others.
  double products = width(hidden.size() - 1), forward = 2 * width(0);
  for (std::size_t l = 1; l < hidden.size(); ++l) {
    products += width(l - 1) * width(l);
    forward += width(l);
  }
  // Back: everything again, each product once for the weights and once for the layer below, a mask
  // for every unit, and the first layer's two sums.
  double back = 2 * products + 2 * width(0);
  for (std::size_t l = 0; l < hidden.size(); ++l) back += width(l);
  return {forward + products, forward + products + back};
}

}  // namespace gbcompress
