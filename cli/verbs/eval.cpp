// `eval` as the command line shows it; the work needs LibTorch (eval_torch.cpp).
#include <boost/program_options.hpp>

#include "command.h"
#include "model_options.h"
#include "report.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

namespace {

void eval_options(po::options_description& into) {
  auto add = into.add_options();
  add("data", text_value("KIND:PATH"),
      "test set: mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, features:FILE or digits");
  add("arch", text_value("NAME"), "architecture; a .gbz names its own");
  add("model", text_value("FILE"), "the original model, for a .gbz made from TorchScript");
  add("exit", text_value("K"),
      "evaluate early exit K, 1 the earliest, of a model with exits; or all, for a table");
  add_model_options(into);
  add("device", text_value("NAME"), "where the model computes: cpu (default), cuda, cuda:N");
  add("config", text_value("FILE"), "read settings from a TOML file");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "one setting; repeatable");
  add_report_options(into, /*force=*/true);
}

}  // namespace

const Verb& eval_verb() {
  static const Verb verb = {
      "eval",
      "Evaluate a model or a .gbz on a test set.",
      "FILE --data KIND:PATH [options]",
      "  gbcompress eval model.safetensors --arch lenet-300-100 --data mnist:DIR\n"
      "  gbcompress eval model.gbz --data mnist:DIR\n"
      "  gbcompress eval model.gbz --model original.torchscript.pt --data text:FILE\n",
      1,
      1,
      eval_options,
      nullptr};
  return verb;
}

}  // namespace gbcompress::cli
