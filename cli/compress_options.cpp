#include "compress_options.h"

#include <algorithm>
#include <set>

#include "gbcompress/error.h"
#include "idle_options.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace {

const char* const kTargets[] = {"ratio", "max-bytes", "bits", "max-drop", "max-error"};
/// Of g-nets, and of files without training.
constexpr double kDefaultRatio = 10;

bool has_target(const Target& target) {
  return target.ratio || target.max_bytes || target.bits || target.max_drop || target.max_error;
}

/// Whether every trainable parameter is stored exactly, so that no target size can be reached by
/// rounding.
bool all_exact(const BottleneckOptions& options) {
  return options.mode == WeightMode::kExact &&
         std::none_of(options.layers.begin(), options.layers.end(),
                      [](const LayerRule& r) { return r.mode && *r.mode != WeightMode::kExact; });
}

/// Without a target: with data the smallest file without a measured quality drop, or the one that
/// the given lambda makes; else kDefaultRatio.
void set_default_target(bool data, Settings& settings) {
  CompressOptions& options = settings.compress;
  if (has_target(options.target) || all_exact(options.bottleneck)) return;
  const bool searches =
      options.bottleneck.mode == WeightMode::kQuantized && data && may_train(options);
  if (searches)
    options.target.no_loss = options.choose.lambda;
  else
    options.target.ratio = kDefaultRatio;
}

[[noreturn]] void contradicts(const std::string& option, const std::string& why) {
  throw Error(Errc::kUsage,
              option + " contradicts --lossless, which " + why + "; give one of both");
}

/// Every value as it is: nothing is trained, data only evaluate.
void make_lossless(const Arguments& arguments, Settings& settings) {
  if (arguments.has("mode") && arguments.text("mode") != mode_name(WeightMode::kExact))
    contradicts("--mode " + printable(arguments.text("mode")), "stores every value exactly");
  for (const char* option : {"epochs", "minutes", "strategy", "from-scratch"})
    if (arguments.has(option) && arguments.text(option) != "0")
      contradicts(std::string("--") + option, "trains nothing");
  if (settings.given_in_call("train.loss")) contradicts("--set train.loss", "trains nothing");
  for (const LayerRule& rule : settings.compress.bottleneck.layers)
    if (rule.mode && *rule.mode != WeightMode::kExact)
      contradicts("the [[layer]] rule for " + printable(rule.match), "stores every value exactly");
  if (!arguments.has("mode")) settings.apply("weights.mode", "exact", "--lossless");
  settings.compress.train.loss = Loss::kWeights;
  settings.compress.choose.loss = false;
}

/// Exact values behind a draft, whose options are those of the draft.
void check_layers(const Arguments& arguments, const Settings& settings) {
  if (!arguments.has("lossless"))
    throw Error(Errc::kUsage,
                "--layers puts exact values behind a draft; give --lossless, too, or leave it out");
  if (arguments.has("base"))
    throw Error(
        Errc::kUsage,
        "--base contradicts --layers, whose exact values follow from the draft; give one of "
        "both");
  if (arguments.has("requantize"))
    throw Error(Errc::kUsage,
                "--requantize contradicts --lossless, which keeps the integers themselves; give "
                "one of both");
  if (arguments.has("dry-run"))
    throw Error(
        Errc::kUsage,
        "--dry-run estimates one part; leave out --layers and --lossless to plan the draft");
  if (settings.compress.bottleneck.mode != WeightMode::kQuantized)
    throw Error(Errc::kUsage, "the draft of --layers is quantized, and the mode is " +
                                  std::string(mode_name(settings.compress.bottleneck.mode)) +
                                  "; leave out --mode");
}

/// Inputs made from batch norms calibrate, and train nothing.
void make_synthetic(const Arguments& arguments, Settings& settings) {
  for (const char* option : {"epochs", "minutes", "strategy", "from-scratch", "max-drop", "effort",
                             "resume", "lossless", "deterministic"}) {
    const std::string value = arguments.text(option);
    if (!arguments.has(option) || value == "0" || value == "fast") continue;
    throw Error(Errc::kUsage, std::string("--") + option +
                                  " contradicts --data synthetic, whose inputs calibrate and train "
                                  "nothing; leave it out, or give real data");
  }
  if (settings.compress.bottleneck.mode != WeightMode::kQuantized)
    throw Error(Errc::kUsage, "--data synthetic calibrates quantized weights, and the mode is " +
                                  std::string(mode_name(settings.compress.bottleneck.mode)) +
                                  "; use --mode quantized, or leave --data out");
  settings.apply("train.effort", "fast", "--data synthetic");
}

}  // namespace

bool is_synthetic(const Arguments& arguments) {
  const std::string spec = arguments.text("data");
  return spec.substr(0, spec.find(':')) == "synthetic";
}

Settings compress_settings(const Arguments& arguments) {
  Settings settings = settings_below_flags(arguments);
  std::string given;
  for (const std::string target : kTargets) {
    if (!arguments.has(target)) continue;
    if (!given.empty())
      throw Error(Errc::kUsage, "--" + target + " contradicts --" + given + "; give one target");
    given = target;
  }
  if (arguments.has("max-bytes"))
    settings.apply("target.max_bytes",
                   std::to_string(parse_bytes(arguments.text("max-bytes"), "--max-bytes")),
                   "--max-bytes");
  apply_flags(arguments,
              {{"ratio", "target.ratio"},
               {"bits", "target.bits"},
               {"max-drop", "target.max_drop"},
               {"max-error", "target.max_error"},
               {"effort", "train.effort"},
               {"minutes", "train.minutes"},
               {"mode", "weights.mode"}},
              settings);
  if (arguments.has("deterministic") && settings.compress.train.shards == 0)
    settings.apply("train.shards", "8", "--deterministic");
  if (arguments.has("layers"))
    check_layers(arguments, settings);
  else if (arguments.has("lossless"))
    make_lossless(arguments, settings);
  if (is_synthetic(arguments)) make_synthetic(arguments, settings);
  set_default_target(arguments.has("data") && !is_synthetic(arguments), settings);
  return settings;
}

CompressionPlan request_plan(const Arguments& arguments, const Settings& settings) {
  const RequestFacts facts{.data = arguments.has("data"),
                           .statistics = arguments.has("statistics")};
  CompressionPlan plan = plan_of(settings.compress, facts);
  check_executable(plan, facts);
  return plan;
}

std::string default_target_text(const Settings& settings) {
  for (const auto& [key, ignored] : settings.given)
    if (key.starts_with("target.")) return "";
  const Target& target = settings.compress.target;
  if (target.ratio)
    return "ratio " + std::to_string(static_cast<int>(*target.ratio)) + " (default)";
  return target.no_loss ? "no quality drop (default)" : "";
}

std::vector<std::string> compress_notes(const Arguments& arguments, const Settings& settings) {
  std::vector<std::string> notes;
  const CompressOptions& run = settings.compress;
  const bool data = arguments.has("data");
  const bool trains = data && may_train(run);
  const std::string idle = unused_settings(settings, use_of(arguments));
  if (!idle.empty()) notes.push_back(idle);
  if (arguments.has("dry-run"))
    note_idle(arguments, {"resume", "checkpoint", "report", "tensorboard", "force"},
              "--dry-run writes nothing", notes);
  else if (!trains && !has_gnets(run.bottleneck))
    note_idle(arguments, {"resume", "checkpoint"}, "nothing is trained", notes);
  note_idle_requantize(arguments, notes);
  note_idle_parts(arguments, {arguments.words().begin(), arguments.words().end()}, notes);
  // They concern the call, however many inputs it has.
  static std::set<std::string> said;
  std::erase_if(notes, [](const std::string& note) { return !said.insert(note).second; });
  return notes;
}

}  // namespace gbcompress::cli
