#pragma once
/// The ranks of a verb that can run on several.

#include <memory>
#include <string>

#include "command.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/settings.h"

namespace gbcompress::cli {

/// Meets the other ranks; null where there are none. Messages carry the rank from then on. All must
/// run the same program with the same plugins: a difference is an error that names it. Ranks whose
/// device is a GPU use NCCL unless ranks.backend says otherwise.
std::unique_ptr<Group> open_group(const Arguments& arguments, const PluginHost& plugins,
                                  const Settings& settings);

}  // namespace gbcompress::cli
