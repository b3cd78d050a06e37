#pragma once
/// What `--help` prints.

#include <iosfwd>

#include "command.h"

namespace gbcompress::cli {

/// The verbs, and the options that all of them take.
void print_general_help(std::ostream& out);
/// Usage, examples and options of one verb, in groups where there are many.
/// @param settings  the settings too, for a verb that takes them
void print_help(std::ostream& out, const Verb& verb, bool settings);

}  // namespace gbcompress::cli
