#pragma once
/// What a few hundred training samples say of a model that is not trained: which tensors' errors
/// are dear.

#include <cstdint>
#include <vector>

#include "gbcompress/dataset.h"
#include "gbcompress/model.h"

namespace gbcompress {

/// Whether a tensor is trainable, its own, and of two and more dimensions.
bool is_matrix(const NamedParameter& tensor);

/// At most `count` samples, drawn by `seed` alone; of long ones fewer, 64 at least.
Dataset calibration_samples(const Dataset& data, std::int64_t count, std::uint64_t seed);

/// For each tensor, averaged over its elements: the mean over samples of the squared gradient of
/// -log p(label), where labels are drawn from what the model itself says. That is the diagonal of
/// the Fisher information: half of it times a squared error is what the model's outputs lose, in
/// nats. 0 for what is not trainable. The model is in evaluation mode afterwards.
std::vector<double> tensor_importance(Model& model, const Dataset& samples, std::uint64_t seed);

/// importance^(-temper / 2), over the geometric mean of all weights of two and more dimensions.
/// What has less than a millionth of the largest importance counts as having that.
std::vector<double> step_factors(const std::vector<NamedParameter>& tensors,
                                 const std::vector<double>& importance, double temper);

}  // namespace gbcompress
