#pragma once
/// compress() where weights are all that decides: what compress_weights() does, on a model in
/// memory.

#include "compress/job.h"

namespace gbcompress {

/// Whether nothing is trained, calibrated or generated.
bool is_from_weights(const Job& job);

/// Of the job's target.
WeightsOptions weights_options(const Job& job);

/// Writes the file, on rank 0, and what it holds into the report.
/// @return the file, opened before it got its name; empty on other ranks
/// @throws as compress_weights()
std::optional<ArtifactReader> write_from_weights(Job& job);

}  // namespace gbcompress
