#pragma once
/// `compress` where nothing but weights is needed, and no LibTorch.

#include <optional>

#include "command.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

class Family;

/// The tensors of MODEL, if the plan needs no model (CompressionPlan::needs_model), the run is of
/// one process without plugins, and the file holds tensors by name; else nothing.
/// @throws as open_tensors()
std::optional<TensorBundle> tensors_of_request(const Arguments& arguments,
                                               const Settings& settings);
/// @param family  of the models of one call that it belongs to, which takes it; or null
/// @return the exit status
int compress_weights_alone(const Arguments& arguments, const Settings& settings,
                           TensorBundle tensors, Family* family = nullptr);

}  // namespace gbcompress::cli
