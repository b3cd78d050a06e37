#include "run_options.h"

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include "gbcompress/error.h"
#include "model_options.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
using nlohmann::ordered_json;

void add_run_options(po::options_description& into) {
  auto add = into.add_options();
  add("arch", text_value("NAME"), "architecture of a file that holds names and values only");
  add_model_options(into);
  add("from-scratch", "instead of MODEL: a new model of the architecture that --arch names");
  add("data", text_value("KIND:PATH"),
      "mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, features:FILE or digits; without it the "
      "weights alone are fitted and nothing is evaluated");
  add("loss", text_value("NAME"), "task, distill or weights");
  add("strategy", text_value("NAME"),
      "backprop, or how else a batch changes the model (a plugin's)");
  add("config", text_value("FILE"), "settings in TOML");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"), "one setting");
  add("epochs", text_value("E"), "passes over the training data");
  add("seed", text_value("S"), "the same seed gives the same file");
}

void add_rank_options(po::options_description& into) {
  auto add = into.add_options();
  add("rank", text_value("R"),
      "this process's number among several; usually torchrun, mpirun or srun say");
  add("world", text_value("N"), "how many processes work together");
  add("local-rank", text_value("R"), "its number on this machine");
  add("master", text_value("HOST:PORT"), "where the processes meet");
  add("listen", text_value("ADDRESS"),
      "where to accept connections of other machines; else loopback only");
  add("timeout", text_value("SECONDS"), "how long to wait for another process (120)");
  add("backend", text_value("NAME"), "gloo (CPU) or nccl (GPU)");
}

Settings settings_below_flags(const Arguments& arguments) {
  Settings settings;
  if (arguments.has("config")) settings.apply_file(arguments.text("config"));
  settings.apply_environment();
  for (const std::string& assignment : arguments.list("set")) settings.apply_assignment(assignment);
  return settings;
}

void apply_flags(const Arguments& arguments, const FlagKeys& own, Settings& settings) {
  FlagKeys flags = {{"loss", "train.loss"},
                    {"epochs", "train.epochs"},
                    {"seed", "train.seed"},
                    {"strategy", "strategy.name"}};
  flags.insert(flags.end(), own.begin(), own.end());
  for (const auto& [flag, key] : flags)
    if (arguments.has(flag)) settings.apply(key, arguments.text(flag), std::string("--") + flag);
  // Without data there is one loss that can be had; asking for another by flag is a mistake, which
  // compress() explains.
  if (!arguments.has("data") && !arguments.has("loss")) {
    settings.compress.train.loss = Loss::kWeights;
    settings.compress.choose.loss = false;
  }
}

bool teaches(const CompressOptions& options, const Arguments& arguments) {
  const bool chosen = options.choose.loss && arguments.has("data") &&
                      options.bottleneck.mode == WeightMode::kResidual &&
                      options.train.loss != Loss::kWeights && options.train.epochs > 0 &&
                      !arguments.has("from-scratch");
  return chosen || options.train.loss == Loss::kDistill;
}

CheckpointFacts setting_facts(const std::string& settings) {
  CheckpointFacts facts;
  const ordered_json all = ordered_json::parse(settings);
  for (const auto& [section, keys] : all.items()) {
    if (!keys.is_object()) {
      facts["setting " + section] = keys.dump();
      continue;
    }
    for (const auto& [key, value] : keys.items())
      facts["setting " + section + "." + key] = value.dump();
  }
  return facts;
}

void need_model(const Arguments& arguments, const std::string& verb) {
  if (arguments.words().empty() && !arguments.has("from-scratch"))
    throw Error(Errc::kUsage, verb +
                                  " needs MODEL, or --from-scratch with --arch and --data; see "
                                  "`gbcompress " +
                                  verb + " --help`");
}

namespace {

std::optional<std::string> given(const Arguments& arguments, const char* option) {
  return arguments.has(option) ? std::optional(arguments.text(option)) : std::nullopt;
}

}  // namespace

Launch launch_of(const Arguments& arguments) {
  return read_launch({given(arguments, "rank"), given(arguments, "world"),
                      given(arguments, "local-rank"), given(arguments, "master")});
}

}  // namespace gbcompress::cli
