#pragma once
/// Messages of the library name its options; the command line says the flag instead.

#include <string>

namespace gbcompress::cli {

/// The message with `ratio` as --ratio, and so on for every option that a flag sets; the name under
/// which standard input is opened becomes "standard input".
std::string with_flags(std::string message);

}  // namespace gbcompress::cli
