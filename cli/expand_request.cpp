#include "expand_request.h"

#include <iostream>

#include "exit_status.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "table.h"

namespace gbcompress::cli {

std::string expanded_suffix(const std::string& input) {
  std::error_code ignored;
  const std::filesystem::path file = input;
  if (!std::filesystem::is_regular_file(file, ignored) || !ArtifactReader::is_artifact(file))
    return ".safetensors";
  const auto container = container_of(ArtifactReader::open(file, {}, DigestCheck::kWhileDecoding));
  return container ? "." + container->format : ".safetensors";
}

ExpandRequest::ExpandRequest(const Arguments& arguments)
    : input(artifact_in(arguments.words()[0])),
      output(arguments, arguments.words()[0], expanded_suffix(arguments.words()[0])),
      overwrite(arguments.has("force")),
      json(arguments.json()) {
  if (arguments.has("max-output"))
    limits.output_bytes = parse_bytes(arguments.text("max-output"), "--max-output");
  writing([&] { output.check(); });
}

ArtifactReader ExpandRequest::open_for_decoding() const {
  return ArtifactReader::open(input, limits, DigestCheck::kWhileDecoding);
}

ArtifactReader ExpandRequest::open() const {
  ArtifactReader artifact = ArtifactReader::open(input, limits);
  artifact.verify();
  return artifact;
}

DecodeOptions ExpandRequest::decoding(const ArtifactReader& artifact,
                                      const Arguments& arguments) const {
  DecodeOptions options;
  if (arguments.has("base")) {
    options.base =
        BaseModel::open_for(artifact, arguments.text("base"), limits).source_for(artifact);
    if (artifact.base().empty() && !arguments.quiet())
      say("--base is not needed: " + printable(input.string()) + " holds every tensor whole");
  } else if (!artifact.base().empty()) {
    throw Error(Errc::kUsage, printable(input.string()) +
                                  " holds what changed since another model; name that one: --base "
                                  "FILE");
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

int ExpandRequest::write(const ArtifactReader& artifact,
                         const std::function<std::int64_t()>& decode) {
  const auto container = container_of(artifact);
  if (output.is_stream() && container && !container->files.empty())
    throw Error(Errc::kUsage, printable(input.string()) + " expands to several files, " +
                                  printable(container->files[0]) +
                                  " beside the model; name a file: -o OUT." + container->format);
  const std::size_t tensors = artifact.tensors().size();
  std::size_t carried = 0;
  const std::int64_t bytes = writing([&] {
    output.begin();
    const std::int64_t written = decode();
    carried = output.finish();
    return written;
  });
  if (json) {
    print_json({{"output", output.name()},
                {"input_bytes", artifact.file_bytes()},
                {"output_bytes", bytes},
                {"tensors", tensors},
                {"carried_files", carried},
                {"arch", artifact.arch()},
                {"identity", artifact.identity()}});
  } else {
    std::cout << with_commas(static_cast<std::int64_t>(tensors)) << " tensors, "
              << with_commas(bytes) << " bytes written to " << output.shown();
    if (carried > 0)
      std::cout << ", " << carried << (carried == 1 ? " file" : " files") << " copied beside it";
    std::cout << "\n";
  }
  return kDone;
}

}  // namespace gbcompress::cli
