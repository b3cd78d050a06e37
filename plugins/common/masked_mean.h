#pragma once
/// Sequences of unequal length in one batch.

#include <ATen/core/Tensor.h>

namespace gbcompress {

/// Which positions hold something, bool [rows, positions]: those whose features are not all 0.
/// Padding is passed on as zeros, so that a stage needs no more than its input.
/// @param x  [rows, positions, features]
at::Tensor held_positions(const at::Tensor& x);

/// The mean over the positions that hold something, [rows, features]; 0 for a row without any.
at::Tensor masked_mean(const at::Tensor& x);

}  // namespace gbcompress
