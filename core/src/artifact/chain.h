#pragma once
/// Deltas of deltas: which files lead from a delta back to a whole model, and what they expand to.

#include <filesystem>

#include "gbcompress/decode.h"

namespace gbcompress {

/// The model that a delta needs, from files of a folder.
/// @throws Error(kNotFound) naming the link that is missing; Error(kCorrupt) for one that expands
/// to
///         other tensors than it states, and for a loop; as ArtifactReader::open()
BaseModel base_in_folder(const ArtifactReader& delta, const std::filesystem::path& folder,
                         const ArtifactLimits& limits);

}  // namespace gbcompress
