#pragma once
/// The ranks of a verb that can run on several.

#include <memory>
#include <string>

#include "command.h"
#include "gbcompress/dist.h"

namespace gbcompress::cli {

/// --rank, --world, --local-rank, --master, --listen, --timeout, --backend.
void add_rank_options(boost::program_options::options_description& into);

/// Meets the other ranks; null where there are none. Messages carry the rank from then on. All must
/// run the same program with the same plugins: a difference is an error that names it.
std::unique_ptr<Group> open_group(const Arguments& arguments, const PluginHost& plugins);

}  // namespace gbcompress::cli
