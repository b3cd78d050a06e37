#include "compress_options.h"

#include "gbcompress/error.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace {

const char* const kTargets[] = {"ratio", "max-bytes", "max-drop", "max-error"};
constexpr const char* kDefaultRatio = "10";

}  // namespace

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
               {"max-drop", "target.max_drop"},
               {"max-error", "target.max_error"},
               {"placement", "ranks.placement"},
               {"mode", "weights.mode"}},
              settings);
  if (arguments.has("deterministic") && settings.compress.train.shards == 0)
    settings.apply("train.shards", "8", "--deterministic");
  const Target& target = settings.compress.target;
  // Trained with the rate in the loss, lambda decides.
  const bool priced = settings.compress.bottleneck.mode == WeightMode::kResidual &&
                      arguments.has("data") && settings.compress.train.loss != Loss::kWeights &&
                      settings.compress.train.epochs > 0;
  if (!priced && !target.ratio && !target.max_bytes && !target.max_drop && !target.max_error)
    settings.apply("target.ratio", kDefaultRatio, "default");
  return settings;
}

}  // namespace gbcompress::cli
