#pragma once
/// Elements read as a type of a smaller range.

#include <cstddef>
#include <span>

#include "base/internal.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace GBC_INTERNAL gbcompress {

/// Refuses a value of a tensor that became infinite when it was read as a type of a smaller range.
/// Infinities of the tensor itself stay.
/// @param made  elements that were read, all or some rows, of type `dtype`
/// @throws Error(kUsage) naming the tensor and its largest magnitude; as decode_elements()
void check_range(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                 std::span<const std::byte> made, const DecodeOptions& options);

}  // namespace gbcompress
