#pragma once
/// Writes the files of a model beside each other, their holes filled with tensors.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "artifact/originals.h"
#include "format/container.h"
#include "gbcompress/decode.h"

namespace gbcompress {

/// What messages call the file of an artifact.
std::string label_of(const ArtifactReader& artifact);

/// Writes the first file to `output` and the others beside it, under their names. Each appears
/// whole or not at all, the first one last.
/// @param originals  what each file has to be; none: anything
/// @return bytes written
/// @throws as decode_elements(), AtomicFile and check_writable(); Error(kUsage) where a file has
///         the name of the output or of the artifact, Error(kUnsupported) for a link in the place
///         of a folder, Error(kCorrupt) for a file that is another than the original, before any
///         has its name
std::int64_t write_model_files(const ArtifactReader& artifact,
                               const std::vector<ContainerFile>& files,
                               const std::filesystem::path& output, bool overwrite,
                               const DecodeOptions& options,
                               std::span<const OriginalFile> originals = {});

}  // namespace gbcompress
