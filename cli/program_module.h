#pragma once
/// Modules: libraries of this program that are opened when something needs them.

#include <string>

namespace gbcompress::cli {

struct ProgramModule {
  const char* needs;         ///< "LibTorch": what the module is opened for
  const char* from_program;  ///< its path, as seen from the program's folder
  const char* entry;         ///< its function that gives what it exports
  int flags;                 ///< of dlopen()
  std::string advice;        ///< what to do where it cannot be loaded
};

/// @return the function `entry`, or null. @throws Error(kFailure) where the module cannot be loaded
void* module_entry(const ProgramModule& module);
/// @throws Error(kFailure) unless `version`, which may be null, is GBC_VERSION_STRING
void check_module_version(const ProgramModule& module, const char* version);

/// What the module exports, whose first member is its version. It is never closed.
/// @throws Error(kFailure) where it cannot be loaded or is of another version
template <typename Exported>
const Exported& open_module(const ProgramModule& module) {
  const auto entry = reinterpret_cast<const Exported* (*)()>(module_entry(module));
  const Exported* exported = entry ? entry() : nullptr;
  check_module_version(module, exported ? exported->version : nullptr);
  return *exported;
}

}  // namespace gbcompress::cli
