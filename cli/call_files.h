#pragma once
/// The files of a call: which are read, which are written, and `-` among them.

#include <filesystem>

#include "command.h"

namespace gbcompress::cli {

/// Puts standard input in the place of `-` where a file is read, sends what is printed to standard
/// error if `-o -` writes the file there, and finds Call::inputs.
/// @param files  whether the verb's words are files
/// @param streams  whether its -o may be `-`
/// @throws Error(kUsage) for `-` where it cannot be, or twice; as keep_standard_input()
Arguments with_files(const Arguments& arguments, bool files, bool streams);

/// Refuses -o, --report, --tensorboard and --checkpoint where they name a file or folder that is
/// read, or a file that another of them names.
/// @throws Error(kUsage)
void check_outputs(const Arguments& arguments);

/// Refuses a path that is one of the call's inputs or a file in a folder among them that is read.
/// @throws Error(kUsage)
void check_not_an_input(const Arguments& arguments, const std::filesystem::path& output);

}  // namespace gbcompress::cli
