#pragma once
/// Step sizes of untrained integers, for a target size or error.

#include <cstdint>

#include "gbcompress/bottleneck.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// Without training: the finest steps found whose file has at most `max_bytes` bytes.
/// @return the step that quantize() was given
double quantize_to_size(GenomicBottleneck& bottleneck, std::int64_t max_bytes, Quantizer quantizer);
/// The coarsest steps found whose relative squared error is at most `max_error`.
void quantize_to_error(GenomicBottleneck& bottleneck, double max_error, Quantizer quantizer);

}  // namespace gbcompress
