/// Error feedback without data, for inputs that a graph makes likely.
#include <map>
#include <tuple>

#include "quantize/allocation/bit_allocation.h"
#include "quantize/feedback/assumed_model.h"

namespace gbcompress {

/// Matrices that statistics name are rounded under these alone (use_statistics()).
void BitAllocation::assume_inputs() {
  std::map<std::tuple<std::vector<std::int64_t>, bool, std::int64_t>,
           std::shared_ptr<const UpperFactor>>
      factors;
  for (TensorAllocation& tensor : tensors_) {
    if (!tensor.assumed || tensor.kind != WeightKind::kMatrix || tensor.tied || tensor.constant)
      continue;
    const auto hint = hints_.find(tensor.source->name);
    if (hint == hints_.end()) continue;
    const LikelyInputs& inputs = hint->second.inputs;
    const auto pieces = assumed_pieces(inputs, tensor.grid.cols);
    if (!pieces) continue;
    auto& factor = factors[{inputs.kernel, inputs.positive, pieces->cols}];
    if (!factor) factor = assumed_factor(inputs, pieces->cols);
    RoundingModel model;
    model.groups.push_back({factor, nullptr});
    model.mean_square = factor->mean_square();
    model.pieces = pieces->count;
    tensor.model = std::make_shared<const RoundingModel>(std::move(model));
  }
}

}  // namespace gbcompress
