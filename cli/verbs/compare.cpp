// `compare` as the command line shows it, and what of it needs no LibTorch.
#include <algorithm>
#include <boost/program_options.hpp>

#include "comparison.h"
#include "each_input.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "idle_options.h"
#include "model_options.h"
#include "run_options.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

void add_compare_options(po::options_description& into) {
  auto add = into.add_options();
  add("data", text_value("KIND:PATH"),
      "compare outputs on a test set too: mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, "
      "features:FILE or digits");
  add("arch", text_value("NAME"),
      "with --data: architecture, for files that hold names and values only");
  add("model", text_value("FILE"),
      "with --data: the original model, for a .gbz made from TorchScript");
  add_model_options(into);
  add("config", text_value("FILE"), "with --data: read settings from a TOML file");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "with --data: one setting; repeatable");
}

/// What the kinds of the two files leave without an effect.
void note_idle_of_files(const Arguments& arguments, std::vector<std::string>& idle) {
  const std::vector<std::filesystem::path> files(arguments.words().begin(),
                                                 arguments.words().end());
  const auto all = [&](auto holds) {
    return std::all_of(files.begin(), files.end(),
                       [&](const auto& file) { return holds(sniff(file)); });
  };
  note_idle_parts(arguments, files, idle);
  if (all([](FileKind kind) { return kind == FileKind::kTorchScript; }))
    note_idle(arguments, {"arch"}, "TorchScript files hold their own forward pass", idle);
  if (all([](FileKind kind) { return kind != FileKind::kArtifact; }))
    note_idle(arguments, {"model"}, "it serves a .gbz, and neither file is one", idle);
}

int compare_two(const Arguments& given) {
  std::vector<std::string> files;
  for (const std::string& word : given.words()) files.push_back(model_in(word).string());
  const Arguments arguments = given.with_words(std::move(files));
  std::vector<std::string> idle;
  if (arguments.has("data")) {
    note_idle_of_files(arguments, idle);
    say_notes(arguments, idle);
    return run_with_torch("compare", arguments);
  }
  for (const char* option : {"arch", "model", "config", "set"})
    if (arguments.has(option))
      throw Error(Errc::kUsage, std::string("--") + option + " needs --data");
  note_idle_parts(arguments, {arguments.words()[0], arguments.words()[1]}, idle);
  const auto pair = open_pair(arguments);
  if (pair) note_idle(arguments, {"plugin"}, "these files hold no layer types of plugins", idle);
  say_notes(arguments, idle);
  return pair ? print_comparison(arguments, *pair) : run_with_torch("compare", arguments);
}

int run_compare(const Arguments& arguments) { return run_parts(arguments, compare_two); }

}  // namespace

const Verb& compare_verb() {
  static const Verb verb = {"compare",
                            "Compare two models or files: tensors, and outputs on a test set.",
                            "A B [--data KIND:PATH] [options]",
                            "  gbcompress compare model.safetensors model.gbz\n"
                            "  gbcompress compare before.pt after.pt --json\n"
                            "  gbcompress compare model.safetensors model.gbz --data mnist:DIR\n",
                            2,
                            2,
                            add_compare_options,
                            run_compare};
  return verb;
}

}  // namespace gbcompress::cli
