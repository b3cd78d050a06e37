#pragma once
/// What is said of a run that was stopped: the command line that continues it.

#include <filesystem>
#include <optional>
#include <string>

#include "command.h"
#include "gbcompress/error.h"

namespace gbcompress::cli {

/// The call as a shell takes it, with --resume `folder`.
std::string resume_command(const Arguments& arguments, const std::filesystem::path& folder);

/// What to say instead of an error of a run whose checkpoints lie in `folder` ("" for none): the
/// command that continues a run that was stopped, or an earlier one whose checkpoints are there.
/// Nothing for another error.
std::optional<std::string> resumption(const Error& error, const Arguments& arguments,
                                      const std::filesystem::path& folder);

}  // namespace gbcompress::cli
