#pragma once
/// `compress` where nothing but weights is needed, and no LibTorch.

#include "command.h"
#include "gbcompress/config.h"

namespace gbcompress::cli {

/// Whether compress_weights() does what was asked: no data, one process, no g-nets, and tensors
/// that a file of names and numbers holds.
bool weights_suffice(const Arguments& arguments, const Settings& settings);
/// @return the exit status
int compress_weights_alone(const Arguments& arguments, const Settings& settings);

}  // namespace gbcompress::cli
