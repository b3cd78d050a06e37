#include "expand_request.h"

#include <iostream>

#include "base/file.h"
#include "base/text.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "table.h"

namespace gbcompress::cli {

ExpandRequest::ExpandRequest(const Arguments& arguments)
    : input(arguments.words()[0]),
      output(arguments.text("output")),
      overwrite(arguments.has("force")),
      json(arguments.json()) {
  if (output.empty()) throw Error(Errc::kUsage, "name the file to write: -o OUT.safetensors");
  if (arguments.has("max-output"))
    limits.output_bytes = parse_bytes(arguments.text("max-output"), "--max-output");
  writing([&] { check_writable(output, overwrite); });
}

ArtifactReader ExpandRequest::open() const {
  ArtifactReader artifact = ArtifactReader::open(input, limits);
  artifact.verify();
  return artifact;
}

int ExpandRequest::report(const ArtifactReader& artifact, std::int64_t bytes) const {
  const std::size_t tensors = artifact.tensors().size();
  if (json) {
    print_json({{"output", output},
                {"input_bytes", artifact.file_bytes()},
                {"output_bytes", bytes},
                {"tensors", tensors},
                {"arch", artifact.arch()},
                {"identity", artifact.identity()}});
  } else {
    std::cout << with_commas(static_cast<std::int64_t>(tensors)) << " tensors, "
              << with_commas(bytes) << " bytes written to " << printable(output) << "\n";
  }
  return kDone;
}

}  // namespace gbcompress::cli
