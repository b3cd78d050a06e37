// `rebase`: another link for a delta, or none.
#include <boost/program_options.hpp>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "idle_options.h"
#include "model_folders.h"
#include "model_options.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

void add_rebase_options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"),
      "the .gbz to write, or - for standard output");
  add("onto", po::value<std::string>()->value_name("FILE"),
      "the model that the new file is a delta of; without it, the new file is whole");
  add("base", po::value<std::vector<std::string>>()->value_name("FILE"),
      "the base of IN.gbz, or a folder with the links of its chain (the folder of IN.gbz); "
      "repeatable");
  add("force", "replace the output file");
}

/// What the file expands to.
struct Expanded {
  TensorBundle tensors;              ///< each is to stay bit for bit, whatever it holds
  std::vector<std::byte> originals;  ///< WeightsOptions::originals
};

/// The original files of an artifact, where its tensors are in the same order.
std::vector<std::byte> originals_for(const TensorBundle& bundle, const ArtifactReader& artifact) {
  const bool same =
      std::equal(bundle.tensors.begin(), bundle.tensors.end(), artifact.tensors().begin(),
                 artifact.tensors().end(),
                 [](const TensorEntry& a, const ArtifactTensor& b) { return a.name == b.name; });
  return same ? artifact.originals() : std::vector<std::byte>();
}

Expanded expanded(const fs::path& input, const Arguments& arguments) {
  if (!ArtifactReader::is_artifact(input))
    throw Error(Errc::kUsage, printable(input.string()) +
                                  " is no .gbz; make a delta of a model with: gbcompress compress "
                                  "MODEL --base FILE --mode exact");
  const ArtifactReader artifact = ArtifactReader::open(input);
  artifact.verify();
  if (arguments.has("base") && !artifact.is_delta())
    say_notes(arguments,
              {"--base is not needed: " + printable(input.string()) + " holds every tensor whole"});
  const BaseModel model =
      arguments.has("base") && artifact.is_delta()
          ? BaseModel::on(artifact, BaseModel::open_for(artifact, paths_of(arguments, "base")))
          : BaseModel::open(input);
  Expanded result{model.tensors(), {}};
  for (TensorEntry& tensor : result.tensors.tensors) tensor.exact = true;
  result.originals = originals_for(result.tensors, artifact);
  return result;
}

int run_rebase(const Arguments& arguments) {
  const fs::path input = artifact_in(arguments.words()[0]);
  if (!arguments.has("output"))
    throw Error(Errc::kUsage, "rebase writes a file of its own; name it: -o OUT.gbz");
  ModelOutput output(arguments, input, ".gbz");
  writing([&] { output.check(); });
  Expanded source = expanded(input, arguments);
  const TensorBundle& tensors = source.tensors;
  std::optional<BaseModel> onto;
  if (arguments.has("onto")) onto = BaseModel::open(arguments.text("onto"));
  WeightsOptions options;
  if (onto) options.bases = {&*onto, 1};
  options.keep_digest = true;
  options.originals = std::move(source.originals);
  options.overwrite = arguments.has("force");
  const WeightsReport report = writing([&] {
    output.begin();
    WeightsReport written = compress_weights(tensors, output.file(), options);
    output.finish();
    return written;
  });
  std::vector<std::string> notes = report.notes;
  note_idle(arguments, {"plugin"}, "rebase runs no layer types", notes);
  say_notes(arguments, notes);
  const auto input_bytes = static_cast<std::int64_t>(fs::file_size(input));
  if (arguments.json()) {
    print_json({{"output", output.name()},
                {"input_bytes", input_bytes},
                {"output_bytes", report.output_bytes},
                {"base", onto ? onto->digest() : ""},
                {"tensors", report.tensors.size()},
                {"unchanged_tensors", report.unchanged},
                {"identity", report.identity}});
  } else {
    std::cout << with_commas(report.output_bytes) << " bytes written to " << output.shown()
              << (onto ? ", a delta of " + printable(arguments.text("onto")) : ", whole") << "\n";
  }
  return kDone;
}

}  // namespace

const Verb& rebase_verb() {
  static const Verb verb = {"rebase",
                            "Make an exact .gbz whole, or a delta of another model.",
                            "IN.gbz -o OUT.gbz [--onto FILE] [--base FILE] [options]",
                            "  gbcompress rebase ckpt-50.gbz -o whole.gbz\n"
                            "  gbcompress rebase ckpt-50.gbz --onto ckpt-40.gbz -o short.gbz\n",
                            1,
                            1,
                            add_rebase_options,
                            run_rebase,
                            false,
                            {},
                            {},
                            true};
  return verb;
}

}  // namespace gbcompress::cli
