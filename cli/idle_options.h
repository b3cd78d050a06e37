#pragma once
/// Options that were given and that change nothing: each call names them in one warning.

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "command.h"

namespace gbcompress::cli {

/// Adds a line that names those of the options that were given, which have no effect.
void note_idle(const Arguments& arguments, std::initializer_list<const char*> options,
               const std::string& why, std::vector<std::string>& notes);
/// --part and --keep where none of the files has parts. @throws as sniff()
void note_idle_parts(const Arguments& arguments, const std::vector<std::filesystem::path>& files,
                     std::vector<std::string>& notes);
/// --requantize, where no input is an ONNX or GGUF model.
void note_idle_requantize(const Arguments& arguments, std::vector<std::string>& notes);
/// --force of verbs that replace nothing but a report, without --report.
void note_idle_force(const Arguments& arguments, std::vector<std::string>& notes);

}  // namespace gbcompress::cli
