#pragma once
/// Which parameters get g-nets, and which.

#include <optional>
#include <string_view>

#include "base/glob.h"
#include "gbcompress/bottleneck.h"

namespace gbcompress {

/// What the file holds of the parameter `name`, after all rules.
WeightMode mode_of(const std::string& name, const BottleneckOptions& options);

/// Whether a g-net is to say what is expected of the residual parameter `name`, after all rules.
bool has_prior(const std::string& name, const BottleneckOptions& options);

/// Whether they ask for such a g-net anywhere.
bool any_prior(const BottleneckOptions& options);

/// The plan of one parameter after all rules, or nothing where it stays plain: no layer type claims
/// its module, or one that supports("only-by-rule") and no rule names it; it is residual without a
/// prior or raw, small, not real-valued, not trainable, tied, or its g-nets would not be smaller.
/// @throws Error(kPluginMissing) where a rule names a type that nobody provides;
///         Error(kUsage) where a rule forces a type that declines the parameter
std::optional<GNetPlan> plan_parameter(const NamedParameter& parameter, const Registry& types,
                                       const BottleneckOptions& options);

}  // namespace gbcompress
