#include "expand_request.h"

#include <iostream>

#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "model_options.h"
#include "table.h"

namespace gbcompress::cli {

namespace {

namespace fs = std::filesystem;

std::optional<ArtifactReader> readable(const fs::path& file, Layer layer) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored) || !ArtifactReader::is_artifact(file)) return {};
  return ArtifactReader::open(file, {}, DigestCheck::kWhileDecoding, layer);
}

std::optional<OriginalsInfo> originals_in(const fs::path& file, Layer layer) {
  const auto artifact = readable(file, layer);
  return artifact ? originals_of(*artifact) : std::nullopt;
}

/// The name in a folder that -o names: of a folder of a model, and of several files, the first one
/// has its own.
std::string first_name(const fs::path& input, Layer layer) {
  std::error_code ignored;
  const auto originals = originals_in(artifact_in(input), layer);
  const bool of_folder = fs::is_directory(input, ignored);
  return originals && (of_folder || originals->files.size() > 1) ? originals->files[0].name : "";
}

std::vector<BaseModel> bases_beside(const ArtifactReader& artifact, const ArtifactLimits& limits) {
  try {
    return BaseModel::beside(artifact, limits);
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) throw;
    throw Error(Errc::kUsage, printable(artifact.path().string()) +
                                  " holds what changed since another model, which no file beside "
                                  "it is; name that one: --base FILE");
  }
}

}  // namespace

std::string expanded_suffix(const Arguments& arguments, const std::string& input) {
  const auto artifact = readable(input, layer_of(arguments));
  if (!artifact) return ".safetensors";
  if (const auto container = container_of(*artifact)) return "." + container->format;
  const auto originals = originals_of(*artifact);
  if (!originals || originals->files.size() > 1) return ".safetensors";
  const std::string own = model_suffix(originals->files[0].name);
  return !own.empty() ? own : originals->format == "torch" ? ".pt" : ".safetensors";
}

ExpandRequest::ExpandRequest(const Arguments& arguments)
    : input(artifact_in(arguments.words()[0])),
      output(arguments, arguments.words()[0], expanded_suffix(arguments, arguments.words()[0]),
             first_name(arguments.words()[0], layer_of(arguments))),
      layer(layer_of(arguments)),
      overwrite(arguments.has("force")),
      json(arguments.json()) {
  if (output.in_folder()) originals = originals_in(input, layer);
  if (arguments.has("max-output"))
    limits.output_bytes = parse_bytes(arguments.text("max-output"), "--max-output");
  writing([&] { output.check(); });
}

ArtifactReader ExpandRequest::opened(DigestCheck check) const {
  ArtifactReader artifact = open_layer(input, layer, limits, check);
  if (layer == Layer::kExact && artifact.is_draft())
    throw Error(Errc::kTruncated, printable(input.string()) +
                                      " ends behind its draft: the exact part is missing; get the "
                                      "whole file, or give --draft for the draft's values");
  return artifact;
}

ArtifactReader ExpandRequest::open_for_decoding() const {
  return opened(DigestCheck::kWhileDecoding);
}

ArtifactReader ExpandRequest::open() const {
  ArtifactReader artifact = opened(DigestCheck::kAtOnce);
  artifact.verify();
  return artifact;
}

DecodeOptions ExpandRequest::decoding(const ArtifactReader& artifact,
                                      const Arguments& arguments) const {
  DecodeOptions options;
  if (arguments.has("base")) {
    options.base =
        base_source(artifact, BaseModel::open_for(artifact, paths_of(arguments, "base"), limits));
    if (!artifact.is_delta() && !arguments.quiet())
      say("--base is not needed: " + printable(input.string()) + " holds every tensor whole");
  } else if (artifact.is_delta()) {
    options.base = base_source(artifact, bases_beside(artifact, limits));
  }
  return options;
}

int ExpandRequest::undamaged(const ArtifactReader& artifact,
                             const std::function<int()>& act) const {
  try {
    return act();
  } catch (const WriteError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted && error.code() != Errc::kExists)
      artifact.check_digest();
    throw;
  }
}

int ExpandRequest::write(const ArtifactReader& artifact, const DecodeOptions& options,
                         const std::function<std::int64_t()>& decode) {
  const auto container = container_of(artifact);
  if (output.is_stream() && container && !container->files.empty())
    throw Error(Errc::kUsage, printable(input.string()) + " expands to several files, " +
                                  printable(container->files[0]) +
                                  " beside the model; name a file: -o OUT." + container->format);
  const bool same = originals ? originals->is_exact() : gives_original(artifact, output.file());
  std::size_t carried = 0;
  const std::int64_t bytes = writing([&] {
    output.begin();
    const std::int64_t written =
        originals ? decode_to_originals(artifact, output.file(), overwrite, options) : decode();
    carried = output.finish();
    return written;
  });
  report(artifact, bytes, carried, same);
  return kDone;
}

void ExpandRequest::report(const ArtifactReader& artifact, std::int64_t bytes, std::size_t carried,
                           bool same) const {
  const std::size_t tensors = artifact.tensors().size();
  if (json) {
    print_json({{"output", output.name()},
                {"input_bytes", artifact.file_bytes()},
                {"output_bytes", bytes},
                {"original", same},
                {"tensors", tensors},
                {"carried_files", carried},
                {"arch", artifact.arch()},
                {"identity", artifact.identity()}});
    return;
  }
  const std::size_t files = originals ? originals->files.size() : 1;
  std::cout << with_commas(static_cast<std::int64_t>(tensors)) << " tensors, " << with_commas(bytes)
            << " bytes written to " << output.shown();
  if (files > 1) std::cout << " and " << files - 1 << " more";
  if (same) std::cout << (files > 1 ? ", the original files" : ", the original file");
  if (carried > 0)
    std::cout << ", " << carried << (carried == 1 ? " file" : " files") << " copied beside it";
  std::cout << "\n";
}

}  // namespace gbcompress::cli
