#pragma once
/// Which tensors of a file are parameters of weights that are packed already.

#include <cstddef>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

/// For each tensor of the bundle whether it is of a real type and scales packed weights: those lie
/// in the same module (all before the last dot of the name), or have the tensor's name up to one of
/// its dots or underscores, and have as many elements or more. Packed are 8-bit, 6-bit and 4-bit
/// floats; integers of 8 bits with at least 8 values; and integers of 16 and 32 bits whose highest
/// bits are in use: not indices, counters and masks.
std::vector<bool> packed_parameters(const TensorBundle& bundle);

}  // namespace gbcompress
