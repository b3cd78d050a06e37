#pragma once
/// Which parameters get g-nets, and which.

#include <optional>
#include <string_view>

#include "base/glob.h"
#include "gbcompress/bottleneck.h"

namespace gbcompress {

/// Whether the mode is `exact` and no rule says otherwise.
bool stores_exactly(const BottleneckOptions& options);

/// Whether BottleneckOptions::code_plain concerns the parameter: it may have g-nets, and is stored
/// without them.
bool codes_plain(const NamedParameter& parameter, const BottleneckOptions& options);

/// The specification of one parameter after all rules, or nothing where it stays plain: no layer
/// type claims its module, or one that supports("only-by-rule") and no rule names it; it is
/// quantized or exact, small, not real-valued, not trainable, tied, or its g-nets would not be
/// smaller.
/// @throws Error(kPluginMissing) where a rule names an unknown type;
///         Error(kUsage) where a rule forces a type that declines the parameter
std::optional<GNetSpec> spec_of(const NamedParameter& parameter, const Registry& types,
                                const BottleneckOptions& options);

}  // namespace gbcompress
