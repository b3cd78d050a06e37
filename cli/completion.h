#pragma once
/// Scripts that complete the command line in a shell, made of the table of verbs and options.

#include <string>

namespace gbcompress::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace gbcompress::cli
