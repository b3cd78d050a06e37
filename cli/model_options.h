#pragma once
/// The options that say which of a file's contents are the model.

#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// --keep, --part.
void add_model_options(boost::program_options::options_description& into);
/// @throws Error(kUsage)
OpenOptions model_options(const Arguments& arguments);
/// What opening a file left out, unless --quiet.
void say_notes(const Arguments& arguments, const std::vector<std::string>& notes);

}  // namespace gbcompress::cli
