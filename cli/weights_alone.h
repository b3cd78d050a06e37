#pragma once
/// `compress` where nothing but weights is needed, and no LibTorch.

#include <optional>

#include "command.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// The tensors of MODEL, if compress_weights() suffices for the request: no data, one process, no
/// g-nets, and tensors that a file of names and numbers holds; else nothing.
/// @throws as open_tensors()
std::optional<TensorBundle> weights_that_suffice(const Arguments& arguments,
                                                 const Settings& settings);
/// @return the exit status
int compress_weights_alone(const Arguments& arguments, const Settings& settings,
                           TensorBundle tensors);

}  // namespace gbcompress::cli
