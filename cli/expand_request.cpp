#include "expand_request.h"

#include <iostream>

#include "exit_status.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "table.h"

namespace gbcompress::cli {

ExpandRequest::ExpandRequest(const Arguments& arguments)
    : input(artifact_in(arguments.words()[0])),
      output(arguments.words()[0], arguments.text("output"), "model.safetensors"),
      overwrite(arguments.has("force")),
      json(arguments.json()) {
  if (output.file().empty())
    throw Error(Errc::kUsage, "name the file to write: -o OUT.safetensors");
  if (arguments.has("max-output"))
    limits.output_bytes = parse_bytes(arguments.text("max-output"), "--max-output");
  writing([&] { output.check(overwrite); });
}

ArtifactReader ExpandRequest::open() const {
  ArtifactReader artifact = ArtifactReader::open(input, limits);
  artifact.verify();
  return artifact;
}

DecodeOptions ExpandRequest::decoding(const ArtifactReader& artifact,
                                      const Arguments& arguments) const {
  DecodeOptions options;
  if (arguments.has("base"))
    options.base = BaseModel::open(arguments.text("base"), limits).source_for(artifact);
  else if (!artifact.base().empty())
    throw Error(Errc::kUsage, printable(input.string()) +
                                  " holds what changed since another model; name that one: --base "
                                  "FILE");
  return options;
}

int ExpandRequest::write(const ArtifactReader& artifact,
                         const std::function<std::int64_t()>& decode) {
  const std::size_t tensors = artifact.tensors().size();
  std::size_t carried = 0;
  const std::int64_t bytes = writing([&] {
    output.begin(overwrite);
    const std::int64_t written = decode();
    carried = output.finish();
    return written;
  });
  if (json) {
    print_json({{"output", output.file()},
                {"input_bytes", artifact.file_bytes()},
                {"output_bytes", bytes},
                {"tensors", tensors},
                {"carried_files", carried},
                {"arch", artifact.arch()},
                {"identity", artifact.identity()}});
  } else {
    std::cout << with_commas(static_cast<std::int64_t>(tensors)) << " tensors, "
              << with_commas(bytes) << " bytes written to " << printable(output.file());
    if (carried > 0) std::cout << ", " << carried << " files copied beside it";
    std::cout << "\n";
  }
  return kDone;
}

}  // namespace gbcompress::cli
