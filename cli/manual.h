#pragma once
/// Pages of the manual, section 1, in the language of man(7).

#include <string>

#include "command.h"

namespace gbcompress::cli {

/// Of the program: its verbs, what all of them take, the settings, the exit status.
std::string manual();
/// Of one verb.
std::string manual(const Verb& verb);

}  // namespace gbcompress::cli
