#pragma once
/// What an artifact keeps of the files that it was made of, ready for write_model_files() and
/// ExpandedFiles.

#include <filesystem>
#include <optional>
#include <vector>

#include "artifact/originals.h"
#include "format/container.h"
#include "gbcompress/decode.h"

namespace gbcompress {

/// The original files of an exact artifact; nothing where it does not keep them.
/// @throws Error(kCorrupt, kTruncated, kLimit, kUnsupported)
std::optional<OriginalFiles> kept_originals(const ArtifactReader& artifact);
/// Each with its whole skeleton, under its name. @throws as safetensors_start()
std::vector<ContainerFile> whole_files(const ArtifactReader& artifact,
                                       const OriginalFiles& originals);

/// The files of an ONNX or GGUF model; nothing where the artifact was made of no such model.
/// Tensors that are stored as varints are decoded, because lengths in the files count their bytes.
/// @param output  of the model's own file, which names the parts of a split model
/// @throws as decode_elements(); Error(kCorrupt) for a container that is one of its own tensors
std::optional<Container> kept_container(const ArtifactReader& artifact,
                                        const std::filesystem::path& output,
                                        const DecodeOptions& options);

}  // namespace gbcompress
