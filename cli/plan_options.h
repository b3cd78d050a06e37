#pragma once

#include <boost/program_options/options_description.hpp>

namespace gbcompress::cli {

/// --arch, --config, --set, --world.
void add_plan_options(boost::program_options::options_description& into);

}  // namespace gbcompress::cli
