#pragma once
/// `compress --dry-run` without data.

#include "command.h"
#include "gbcompress/options.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

/// Prints bytes, memory and time that compress_weights() would take. @return the exit status
int print_estimate(const Arguments& arguments, const Settings& settings,
                   const TensorBundle& tensors, const WeightsOptions& options);

}  // namespace gbcompress::cli
