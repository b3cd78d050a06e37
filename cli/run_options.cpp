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
  add("arch", text_value("NAME"), "architecture, for a file that holds names and values only");
  add_model_options(into);
  add("from-scratch", "train a new model of the architecture --arch instead of MODEL");
  add("data", text_value("KIND:PATH"),
      "train, calibrate and evaluate with data: mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, "
      "features:FILE or digits; synthetic (compress alone): calibrate with inputs made from the "
      "model's batch norms; default: data-free, and quality is not evaluated");
  add("strategy", text_value("NAME"), "training algorithm: backprop, or a plugin's");
  add("config", text_value("FILE"), "read settings from a TOML file");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "one setting; repeatable");
  add("epochs", text_value("E"), "passes over the training data; 0: calibrate, and train nothing");
  add("seed", text_value("S"), "random seed; the same seed gives the same file");
  add("device", text_value("NAME"),
      "with data: where the model computes: cpu (default), cuda, cuda:N");
}

Settings settings_below_flags(const Arguments& arguments) {
  Settings settings;
  std::optional<std::filesystem::path> file;
  if (arguments.has("config")) file = arguments.text("config");
  settings.apply_below_flags(file, arguments.list("set"));
  return settings;
}

void apply_flags(const Arguments& arguments, const FlagKeys& own, Settings& settings) {
  FlagKeys flags = {{"epochs", "train.epochs"},
                    {"seed", "train.seed"},
                    {"device", "train.device"},
                    {"strategy", "strategy.name"}};
  flags.insert(flags.end(), own.begin(), own.end());
  for (const auto& [flag, key] : flags)
    if (arguments.has(flag)) settings.apply(key, arguments.text(flag), std::string("--") + flag);
  // Without data there is one loss that can be had; asking for another in the call is a mistake,
  // which compress() explains.
  if (!arguments.has("data") && !settings.given_in_call("train.loss")) {
    settings.compress.train.loss = Loss::kWeights;
    settings.compress.choose.loss = false;
  }
}

void say_unused(const Arguments& arguments, const Settings& settings,
                const std::vector<std::string>& read, const std::string& verb) {
  const std::string unused = unused_settings(settings, read, verb);
  if (!unused.empty()) say_notes(arguments, {unused});
}

SettingsUse use_of(const Arguments& arguments) {
  const std::string data = arguments.text("data");
  const bool text = data.starts_with("text:");
  // Files of tensors hold anything.
  const bool tensors = data.starts_with("tensors:") || data.starts_with("features:");
  return {.data = arguments.has("data"),
          .images = !data.empty() && !text && !data.starts_with("features:"),
          .text = text || tensors,
          .from_scratch = arguments.has("from-scratch"),
          .ranks = read_launch().world};
}

bool teaches(const CompressOptions& options, const Arguments& arguments) {
  const bool chosen = options.choose.loss && arguments.has("data") &&
                      options.bottleneck.mode == WeightMode::kQuantized && may_train(options) &&
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

}  // namespace gbcompress::cli
