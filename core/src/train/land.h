#pragma once
/// Untrained integers, for a file of a target size or error.

#include <cstdint>

#include "gbcompress/bottleneck.h"
#include "gbcompress/train.h"

namespace gbcompress {

/// Without training: the finest steps found whose file has at most `wanted` bytes.
/// @return the step that quantize() was given
double land_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted, Quantizer quantizer);
/// The next larger step that land_untrained() would try.
double next_coarser(double step);
/// The coarsest steps found whose relative squared error is at most `max_error`.
void land_untrained(GenomicBottleneck& bottleneck, double max_error, Quantizer quantizer);

}  // namespace gbcompress
