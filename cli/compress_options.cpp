#include "compress_options.h"

#include "gbcompress/error.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace {

const char* const kTargets[] = {"ratio", "max-bytes", "max-drop", "max-error"};
/// Of g-nets, and of files without training.
constexpr const char* kDefaultRatio = "10";

/// Without a target: with data the smallest file that loses nothing, or what the price that was
/// given makes of it; else kDefaultRatio.
void set_default_target(bool data, Settings& settings) {
  CompressOptions& options = settings.compress;
  Target& target = options.target;
  if (target.ratio || target.max_bytes || target.max_drop || target.max_error) return;
  const bool priced = options.bottleneck.mode == WeightMode::kResidual && data &&
                      options.train.loss != Loss::kWeights && options.train.epochs > 0;
  if (!priced)
    settings.apply("target.ratio", kDefaultRatio, "default");
  else
    target.no_loss = options.choose.price;
}

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
               {"minutes", "train.minutes"},
               {"placement", "ranks.placement"},
               {"mode", "weights.mode"}},
              settings);
  if (arguments.has("deterministic") && settings.compress.train.shards == 0)
    settings.apply("train.shards", "8", "--deterministic");
  set_default_target(arguments.has("data"), settings);
  return settings;
}

}  // namespace gbcompress::cli
