#include "model_options.h"

#include <boost/program_options.hpp>

#include "gbcompress/error.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

void add_model_options(po::options_description& into) {
  auto add = into.add_options();
  add("part", po::value<std::string>()->value_name("NAME"),
      "of a checkpoint with several models, the one to use: generator, ema.state_dict");
  add("keep", po::value<std::string>()->value_name("all"),
      "keep all of a checkpoint, optimizers and counters too, under full names");
}

OpenOptions model_options(const Arguments& arguments) {
  if (arguments.has("keep") && arguments.text("keep") != "all")
    throw Error(Errc::kUsage, "--keep takes the word all");
  if (arguments.has("keep") && arguments.has("part"))
    throw Error(Errc::kUsage, "--part contradicts --keep all; give one of both");
  if (arguments.has("part") && arguments.text("part").empty())
    throw Error(Errc::kUsage, "--part needs the name of a part");
  return {arguments.has("keep"), arguments.text("part"), arguments.has("requantize")};
}

Layer layer_of(const Arguments& arguments) {
  return arguments.has("draft") ? Layer::kDraft : Layer::kExact;
}

ArtifactReader open_layer(const std::filesystem::path& file, Layer layer,
                          const ArtifactLimits& limits, DigestCheck check) {
  ArtifactReader artifact = ArtifactReader::open(file, limits, check, layer);
  if (layer == Layer::kDraft && !artifact.is_draft())
    throw Error(Errc::kUsage, printable(file.string()) +
                                  " has no draft: it was compressed without --layers; leave out "
                                  "--draft");
  return artifact;
}

void say_notes(const Arguments& arguments, const std::vector<std::string>& notes) {
  if (arguments.quiet()) return;
  for (const std::string& note : notes) say(note);
}

}  // namespace gbcompress::cli
