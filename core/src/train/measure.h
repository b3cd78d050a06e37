#pragma once
/// One pass of a model over a part of a split, as whoever measures needs it.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "gbcompress/model.h"

namespace gbcompress {

/// @throws Error(kUsage) for a model without a forward pass, or an empty split
void check_measurable(const Model& model, const Dataset& data);

/// Samples a forward pass, so that memory stays bounded: about 512 Ki numbers going in.
std::int64_t samples_a_pass(const Dataset& data);

/// Outputs of the positions of a batch: float32 [positions, classes].
/// @throws Error(kShapeMismatch) where they do not fit the targets
at::Tensor outputs_of(Model& model, const Batch& batch);

/// What a score is measured in: of targets that are outputs the mean of their squares at a
/// position, else 1.
double unit_of(const Dataset& data);

/// The metric at each position: 100 for right and 0 for wrong, nats, or the squared error in that
/// unit. float64 [positions].
at::Tensor scores_of(const at::Tensor& outputs, const Batch& batch, Metric metric, double unit);

}  // namespace gbcompress
