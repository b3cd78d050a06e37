#include "run_options.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "base/text.h"
#include "gbcompress/error.h"
#include "model_options.h"
#include "model_size.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
using nlohmann::ordered_json;

void add_run_options(po::options_description& into) {
  auto add = into.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  add("arch", text("NAME"), "architecture of a file that holds names and values only");
  add_model_options(into);
  add("from-scratch", "instead of MODEL: a new model of the architecture that --arch names");
  add("data", text("KIND:PATH"),
      "mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE or digits; without it the weights alone "
      "are fitted and nothing is evaluated");
  add("loss", text("NAME"), "task, distill or weights");
  add("config", text("FILE"), "settings in TOML");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"), "one setting");
  add("epochs", text("E"), "passes over the training data");
  add("seed", text("S"), "the same seed gives the same file");
}

Settings settings_below_flags(const Arguments& arguments) {
  Settings settings;
  if (arguments.has("config")) settings.apply_file(arguments.text("config"));
  settings.apply_environment();
  for (const std::string& assignment : arguments.list("set")) settings.apply_assignment(assignment);
  return settings;
}

void apply_flags(const Arguments& arguments, const FlagKeys& own, Settings& settings) {
  FlagKeys flags = {{"loss", "train.loss"}, {"epochs", "train.epochs"}, {"seed", "train.seed"}};
  flags.insert(flags.end(), own.begin(), own.end());
  for (const auto& [flag, key] : flags)
    if (arguments.has(flag)) settings.apply(key, arguments.text(flag), std::string("--") + flag);
  // Without data there is one loss that can be had; asking for another by flag is a mistake, which
  // compress() explains.
  if (!arguments.has("data") && !arguments.has("loss"))
    settings.compress.train.loss = Loss::kWeights;
}

namespace {

/// Parameters below which one thread computes unless the user asks for more: it is as fast alone
/// (0.4 s on the digits either way), and on a busy machine two that wait for each other took 20 s.
constexpr std::int64_t kSmallModel = 200'000;

}  // namespace

void set_threads(std::int64_t wanted, const Model& model) {
  std::int64_t parameters = 0;
  for (const NamedParameter& p : model.tensors())
    if (p.trainable) parameters += p.info.elements();
  if (wanted == 0 && parameters < kSmallModel) wanted = 1;
  if (wanted > 0) at::set_num_threads(static_cast<int>(wanted));
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

Input open_input(const Arguments& arguments, const PluginHost& host, std::uint64_t seed) {
  const std::string arch = arguments.text("arch");
  if (!arguments.has("from-scratch")) {
    const std::filesystem::path file = arguments.words()[0];
    const OpenOptions options = model_options(arguments);
    return {open_model(file, arch, host.registry(), options), model_bytes(file, options)};
  }
  if (!arguments.words().empty())
    throw Error(Errc::kUsage, "--from-scratch contradicts the model file " +
                                  printable(arguments.words()[0]) + "; give one of both");
  if (arch.empty() || !arguments.has("data"))
    throw Error(Errc::kUsage, "--from-scratch needs --arch, and --data to train on");
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
  Input input{build_model(arch, host.registry()), 0};
  for (const NamedParameter& p : input.model->tensors())
    if (p.tied_to.empty()) input.bytes += static_cast<std::int64_t>(p.tensor.nbytes());
  return input;
}

}  // namespace gbcompress::cli
