#include "bottleneck/parameter_gnets.h"

#include <algorithm>

#include "base/glob.h"
#include "gbcompress/error.h"

namespace gbcompress {

bool stores_exactly(const BottleneckOptions& options) {
  return options.mode == WeightMode::kExact &&
         std::none_of(options.layers.begin(), options.layers.end(), [](const LayerRule& rule) {
           return rule.mode.value_or(WeightMode::kExact) != WeightMode::kExact;
         });
}

bool codes_plain(const NamedParameter& parameter, const BottleneckOptions& options) {
  return options.code_plain && parameter.trainable && parameter.tied_to.empty() &&
         mode_of(parameter.info.name, options) == WeightMode::kGenerated;
}

std::optional<GNetSpec> spec_of(const NamedParameter& parameter, const Registry& types,
                                const BottleneckOptions& options) {
  const ParameterInfo& info = parameter.info;
  if (!parameter.trainable || !parameter.tied_to.empty() || !is_real(info.dtype) ||
      info.shape.empty() || mode_of(info.name, options) != WeightMode::kGenerated)
    return std::nullopt;

  GNetOptions gnet = options.gnet;
  std::optional<std::string> forced;
  for (const LayerRule& rule : options.layers) {
    if (!matches_glob(rule.match, info.name)) continue;
    if (rule.type) forced = rule.type;
    if (rule.tile_weights) {
      gnet.tile_weights = *rule.tile_weights;
      gnet.ratio.reset();
      if (gnet.rank == 0) gnet.rank = GNetOptions().rank;  // it followed from the ratio
    }
    if (rule.ratio) gnet.ratio = rule.ratio;
    if (rule.hidden) gnet.hidden = *rule.hidden;
    if (rule.generator) gnet.generator = *rule.generator;
    if (rule.rank) gnet.rank = *rule.rank;
    if (rule.row_code) gnet.row_code = rule.row_code;
    if (rule.col_code) gnet.col_code = rule.col_code;
  }
  if (forced == "plain") return std::nullopt;

  const GNetType* type = nullptr;
  if (forced) {
    type = types.find_by_id(*forced);
    if (!type)
      throw Error(Errc::kPluginMissing, "a [[layer]] rule names layer type " + *forced + " for " +
                                            printable(info.name) +
                                            ", which no loaded plugin provides; see "
                                            "`gbcompress plugins list`");
  } else {
    if (info.elements() < options.min_elements) return std::nullopt;
    type = types.find_by_module(info.module_type);
    if (!type || type->supports("only-by-rule")) return std::nullopt;
  }
  auto spec = type->spec(info, gnet);
  if (!spec) {
    if (forced)
      throw Error(Errc::kUsage, "layer type " + *forced + " does not take " + printable(info.name) +
                                    "; change the [[layer]] rule");
    return std::nullopt;
  }
  if (spec_parameters(*spec) >= info.elements()) return std::nullopt;
  return spec;
}

}  // namespace gbcompress
