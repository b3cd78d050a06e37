#pragma once
/// From a file's bytes to a report of the file on disk.

#include <cstddef>
#include <vector>

#include "compress/compress_run.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

/// The model gets the values of a file.
void take_values(const CompressRun& call, const std::vector<std::byte>& file);
/// @return the file, opened before it got its name: another process may replace it at any time
ArtifactReader write(const CompressRun& call, const std::vector<std::byte>& bytes);
/// Reads the file back, expands it into the model, measures its quality, compares size and error
/// with the target.
/// @throws Error(kInterrupted) if the evaluation is stopped; the file is whole then
void verify(CompressRun& call, const ArtifactReader& artifact, CompressionReport& report);

}  // namespace gbcompress
