#pragma once
/// Inputs made from a model's batch norms, to calibrate it where there are no data.

#include <cstdint>
#include <functional>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// After a step: how many were done, of how many, and how far the norms' inputs are.
using StepSink = std::function<void(std::int64_t done, std::int64_t total, double distance)>;

/// Inputs whose activations have the means and deviations that the batch norms hold: 1/f noise that
/// is fitted by Adam. Without targets: answered() gives what the model makes of them.
/// @param model  in the phase of evaluation afterwards; its parameters stay as they are
/// @param shape  of one input; empty: Model::input_shape(), else that of the first convolution with
///               sides of 128
/// @throws Error(kUsage) for a recurrent model, one without batch norms or without a forward pass,
///         and where the shape does not follow from the model
Data fit_inputs(Model& model, std::vector<std::int64_t> shape, std::uint64_t seed,
                const StepSink& step);

}  // namespace gbcompress
