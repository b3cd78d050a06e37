#pragma once
/// What a report says of a run beside its file.

#include <optional>

#include "compress/compress_run.h"
#include "compress/run_plan.h"
#include "gbcompress/bottleneck.h"

namespace gbcompress {

/// The given model: size, parameters, and with data its quality.
void describe_original(const CompressRun& call, CompressionReport& report);
/// The method that was taken and what it chose.
/// @param bottleneck  of methods that have one
void describe(const CompressRun& call, const PlanResult& result,
              const std::optional<GenomicBottleneck>& bottleneck, CompressionReport& report);

}  // namespace gbcompress
