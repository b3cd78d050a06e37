#pragma once
/// Sequences of unequal length in one batch.

#include <ATen/core/Tensor.h>

namespace gbcompress {

/// For callers without a mask: positions whose features are not all 0, bool [rows, positions].
/// Padding is passed on as zeros; a position that is no padding may be 0 too.
/// @param x  [rows, positions, features]
at::Tensor held_positions(const at::Tensor& x);

/// The mean over the positions of the mask, [rows, features]; 0 for a row without any.
/// @param mask  bool [rows, positions]
at::Tensor masked_mean(const at::Tensor& x, const at::Tensor& mask);

}  // namespace gbcompress
