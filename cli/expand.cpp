#include <iostream>

#include "base/file.h"
#include "base/text.h"
#include "command.h"
#include "exit_status.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

void options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"), "the .safetensors to write");
  add("max-output", po::value<std::string>()->value_name("N"),
      "refuse a file that expands to more than N bytes: 500MB, 2GB");
  add("force", "replace the output file");
}

int run(const Arguments& arguments) {
  const std::string output = arguments.text("output");
  if (output.empty()) throw Error(Errc::kUsage, "name the file to write: -o OUT.safetensors");
  ArtifactLimits limits;
  if (arguments.has("max-output"))
    limits.output_bytes = parse_bytes(arguments.text("max-output"), "--max-output");
  const bool overwrite = arguments.has("force");
  writing([&] { check_writable(output, overwrite); });

  const ArtifactReader artifact = ArtifactReader::open(arguments.words()[0], limits);
  artifact.verify();
  PluginHost host;
  load_plugins(host, arguments);
  const std::int64_t bytes =
      writing([&] { return expand_to_file(artifact, host.registry(), output, overwrite); });
  const std::size_t tensors = artifact.tensors().size();

  if (arguments.json()) {
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

}  // namespace

const Verb& expand_verb() {
  static const Verb verb = {"expand",
                            "Turn a .gbz back into a .safetensors file.",
                            "IN.gbz -o OUT.safetensors [options]",
                            "  gbcompress expand model.gbz -o model.safetensors\n"
                            "  gbcompress expand stranger.gbz -o model.safetensors --max-output "
                            "500MB\n",
                            1,
                            1,
                            options,
                            run};
  return verb;
}

}  // namespace gbcompress::cli
