#include "compress/verify.h"

#include <cstdio>
#include <optional>
#include <string>

#include "bottleneck/parameter_gnets.h"
#include "gbcompress/atomic_file.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// From here on everything is about the file: opening checked its digest, expanding decodes it all.
void measure_file(CompressRun& call, const ArtifactReader& artifact, CompressionReport& report) {
  load_tensors(call.model, expand(artifact, call.registry));
  report.output_bytes = artifact.file_bytes();
  report.identity = artifact.identity();
  if (!call.data) return;
  try {
    const Quality quality = measure(call.model, call.data->test, call.data->metric, call.progress);
    report.after = quality.metric;
    report.top5_after = quality.top5;
    if (const std::size_t exits = call.model.exits().size(); exits > 0) {
      call.model.take_exit(static_cast<std::int64_t>(exits));
      report.last_exit = evaluate(call.model, call.data->test, call.data->metric, call.progress);
      call.model.take_exit(0);
    }
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    throw Error(Errc::kInterrupted, "stopped on request; " + call.options.output.string() +
                                        " is written and whole, but was not evaluated");
  }
}

void compare_with_target(const CompressRun& call, CompressionReport& report) {
  if (call.wanted_bytes() > 0 && report.output_bytes > call.wanted_bytes()) {
    report.target_met = false;
    const std::string bytes = std::to_string(report.output_bytes);
    if (report.target_note.empty())
      report.target_note =
          "the target is " + std::to_string(call.wanted_bytes()) + " bytes, and " +
          (stores_exactly(call.options.bottleneck)
               ? "exact values take " + bytes + "; use `mode` quantized"
               : "the file has " + bytes + "; exact tensors and the smallest g-nets take the rest");
  }
  const std::optional<double>& most = call.options.target.max_error;
  if (most && report.target_note.empty() && report.weight_error > *most) {
    report.target_met = false;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the target error is %g; with the finest step sizes it is %.3g", *most,
                  report.weight_error);
    report.target_note = text;
  }
}

}  // namespace

void take_values(const CompressRun& call, const std::vector<std::byte>& file) {
  load_tensors(call.model, expand(ArtifactReader::from_bytes(file, "the file"), call.registry));
}

ArtifactReader write(const CompressRun& call, const std::vector<std::byte>& bytes) {
  AtomicFile file(call.options.output, call.options.overwrite);
  file.write(bytes);
  ArtifactReader artifact = ArtifactReader::open(file.flush());
  file.commit();
  return artifact;
}

void verify(CompressRun& call, const ArtifactReader& artifact, CompressionReport& report) {
  measure_file(call, artifact, report);
  compare_with_target(call, report);
}

}  // namespace gbcompress
