#pragma once
/// The importance of tensors by its definition.

#include <vector>

#include "statistics/calibrate.h"

namespace gbcompress {

/// For each tensor, averaged over its elements: the mean over samples of the squared gradient of
/// -log p(label), where labels are drawn from what the model itself says. That is the diagonal of
/// the Fisher information: half of it times a squared error is what the model's outputs lose, in
/// nats. 0 for what is not trainable. The model is in evaluation mode afterwards.
inline std::vector<double> tensor_importance(Model& model, const Dataset& samples,
                                             std::uint64_t seed) {
  std::vector<double> importance(model.tensors().size(), 0);
  const double outputs = for_drawn_gradients(model, samples, 0, samples.size(), seed, [&] {
    for (std::size_t i = 0; i < importance.size(); ++i)
      importance[i] += squared_gradient(model.tensors()[i]);
  });
  for (double& value : importance) value /= outputs;
  return importance;
}

}  // namespace gbcompress
