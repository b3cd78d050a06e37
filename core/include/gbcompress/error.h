#pragma once
/// The one error type. Every code is stable: programs may switch on it, and the command line maps
/// it to an exit status in one table (cli/exit_status.h). The message is one sentence that says
/// what is wrong and, where there is something to do, what to do next.

#include <stdexcept>
#include <string>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class Errc {
  kFailure = 1,          ///< something failed that is nobody's input (a bug, a full disk, a lost process)
  kUsage = 2,            ///< an argument or option is out of range or contradicts another
  kNotFound = 3,         ///< an input file or a named thing in it does not exist
  kExists = 4,           ///< the output exists and overwriting was not asked for
  kIo = 5,               ///< the operating system refused to read or write
  kTruncated = 6,        ///< input ends before what it declares
  kCorrupt = 7,          ///< input contradicts its own format or its digest
  kUnsupported = 8,      ///< well formed, but a version, type or feature this build does not know
  kLimit = 9,            ///< input declares more than the stated bound
  kShapeMismatch = 10,   ///< names or shapes do not fit each other
  kNonFinite = 11,       ///< NaN or infinity where numbers were needed
  kConfig = 12,          ///< a settings file or key is wrong
  kPluginRefused = 13,   ///< a plugin file may not be loaded, or failed to register
  kPluginMissing = 14,   ///< a layer type is named that no loaded plugin provides
  kTargetNotMet = 15,    ///< the wanted size or quality was not reached
  kInterrupted = 16,     ///< the user or the system asked to stop
};

/// Stable lower-case name of a code ("shape_mismatch"), as printed by --json.
std::string_view errc_name(Errc code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

}  // namespace gbcompress
