#pragma once
/// What is worked out about single tensors: their type, deviation, ties, and numbers that are none.

#include "gbcompress/model.h"

namespace gbcompress {

/// Sets info.shape, info.dtype and info.std from the tensor.
/// @throws Error(kUnsupported) for an element type that no file format here has
void fill_facts(NamedParameter& entry);

/// Standard deviation (n - 1) in double, summed in the tensor's order, so that it does not depend
/// on threads; 0 below 2 values, for complex and 8-bit floating types, and where it is not finite.
double standard_deviation(const at::Tensor& tensor);

/// Sets tied_to of every entry whose memory and shape an earlier entry has.
void mark_ties(std::vector<NamedParameter>& entries);

/// What holds NaN or infinity is not trainable: it stays as it is.
void freeze_not_finite(std::vector<NamedParameter>& entries);

}  // namespace gbcompress
