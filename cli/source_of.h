#pragma once

#include <filesystem>

#include "gbcompress/artifact.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// The file that an artifact was made of, or another of that model, as compress orders its tensors
/// and rewrites its batch norms.
TensorBundle source_of(const ArtifactReader& artifact, const std::filesystem::path& file,
                       const OpenOptions& options);

}  // namespace gbcompress::cli
