#pragma once
/// How an error ends the program: one message, a JSON object with --json, the exit status.

#include <functional>

namespace gbcompress::cli {

/// @param json  print an error as a JSON object too
/// @param act   the work. @return its exit status
/// @return the exit status of the work, or of what it threw
int told(bool json, const std::function<int()>& act);

}  // namespace gbcompress::cli
