#pragma once
/// Standard normal numbers out of random words, for the processor at hand. No LibTorch.

#include <cstdint>
#include <span>

#include "base/random.h"

namespace GBC_INTERNAL gbcompress {

/// out[i] is the standard normal number of the stream's word first + i: its quantile, within 5e-7
/// and up to 5.3 deviations (24 bits of the word). Another number than RandomStream::normal() gives
/// for that index, in a tenth of its time. The bits are the same on every processor and however a
/// range is cut.
void fill_normal_by_inversion(const RandomStream& stream, std::uint64_t first,
                              std::span<float> out);

}  // namespace gbcompress
