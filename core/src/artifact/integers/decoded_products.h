#pragma once
/// Products with a matrix of a file that is decoded meanwhile, for the head of a language model:
/// its values never lie in memory together.

#include <cstddef>
#include <cstdint>
#include <span>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// Whether multiply_decoded() takes a tensor: its values are those of DirectValues, and each part
/// has whole rows [first dimension, the others].
/// @param dtype  of the values: F32 or BF16
bool multiplies_decoded(const ArtifactReader& artifact, std::size_t tensor, DType dtype);

/// to[t, r] = sum over c of x[t, c] * value[r, c] in float32.
/// @param tensor   multiplies_decoded()
/// @param dtype    F32 or BF16, what values are rounded to
/// @param x        [tokens, columns]
/// @param to       [tokens, rows]
/// @param threads  0: one for each processor; they change no bit
/// @throws Error(kShapeMismatch) for other sizes; as decode_elements()
void multiply_decoded(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                      std::span<const float> x, std::int64_t tokens, std::span<float> to,
                      int threads);

}  // namespace gbcompress
