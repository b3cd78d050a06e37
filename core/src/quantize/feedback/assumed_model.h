#pragma once
/// Rounding for what is likely of a weight's inputs where nothing was measured.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/internal.h"
#include "format/tensor_hint.h"
#include "quantize/feedback/rounding_model.h"

namespace GBC_INTERNAL gbcompress {

/// How a row of such inputs is divided: into pieces of as many columns.
struct AssumedPieces {
  std::int64_t count = 1, cols = 0;
};
/// @return nothing where `cols` are no kernels of that size, or too large ones
std::optional<AssumedPieces> assumed_pieces(const LikelyInputs& inputs, std::int64_t cols);

/// For second moments of inputs that resemble their neighbors in the kernel, and that share a mean
/// where none is negative.
/// @param cols  of a piece
std::shared_ptr<const UpperFactor> assumed_factor(const LikelyInputs& inputs, std::int64_t cols);

}  // namespace gbcompress
