// `compare` as the command line shows it, and what of it needs no LibTorch.
#include <boost/program_options.hpp>

#include "comparison.h"
#include "gbcompress/error.h"
#include "model_options.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

void options(po::options_description& into) {
  auto add = into.add_options();
  add("data", text_value("KIND:PATH"),
      "their outputs too, on held-out data: mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, "
      "features:FILE or digits");
  add("arch", text_value("NAME"),
      "with --data: architecture of files that hold names and values only");
  add("model", text_value("FILE"),
      "with --data: the original model, for a .gbz that came from TorchScript");
  add_model_options(into);
  add("config", text_value("FILE"), "settings in TOML");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"), "one setting");
}

int run(const Arguments& arguments) {
  if (arguments.has("data")) return run_with_torch("compare", arguments);
  for (const char* option : {"arch", "model", "config", "set"})
    if (arguments.has(option))
      throw Error(Errc::kUsage, std::string("--") + option + " needs --data");
  const auto pair = open_pair(arguments);
  return pair ? print_comparison(arguments, *pair) : run_with_torch("compare", arguments);
}

}  // namespace

const Verb& compare_verb() {
  static const Verb verb = {
      "compare",
      "Compare two models or files, tensor by tensor and by what they answer.",
      "A B [--data KIND:PATH] [options]",
      "  gbcompress compare model.safetensors model.gbz\n"
      "  gbcompress compare before.pt after.pt --json\n"
      "  gbcompress compare model.safetensors model.gbz --data mnist:DIR\n",
      2,
      2,
      options,
      run};
  return verb;
}

}  // namespace gbcompress::cli
