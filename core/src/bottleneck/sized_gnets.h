#pragma once
/// Which g-nets make a file of a target size (gbcompress/recipe.h), for tensors in memory.

#include "gbcompress/bottleneck.h"

namespace gbcompress {

/// expected_bytes() of the file that these options make.
std::int64_t expected_bytes(const std::vector<NamedParameter>& tensors, const Registry& registry,
                            const BottleneckOptions& options);

/// The options with g-nets of the size for a file of at most `max_bytes`.
BottleneckOptions options_for_size(const std::vector<NamedParameter>& tensors,
                                   const Registry& registry, BottleneckOptions options,
                                   std::int64_t max_bytes);

/// Whether neither the options nor their rules say what g-nets are made of.
bool leaves_generator_open(const BottleneckOptions& options);

/// The options that BottleneckOptions::target_ratio stands for; without one, the same.
/// @throws Error(kUsage) for a ratio that is not above 1, or beside BottleneckOptions::gnet.ratio
BottleneckOptions with_recipe(const std::vector<NamedParameter>& tensors, const Registry& registry,
                              const BottleneckOptions& options);

}  // namespace gbcompress
