#pragma once
/// The one error type, words for its messages, and requests to stop. Every code is stable: programs
/// may switch on it, and the command line maps it to an exit status in one table
/// (cli/exit_status.h). The message is one sentence that says what is wrong and, where there is
/// something to do, what to do next.

#include <cstddef>
#ifndef GBC_FREESTANDING
#include <stdexcept>
#endif
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class Errc {
  kFailure = 1,         ///< failed without a faulty input (a bug, a full disk, an ended process)
  kUsage = 2,           ///< an argument or option is out of range or contradicts another
  kNotFound = 3,        ///< an input file or a named thing in it does not exist
  kExists = 4,          ///< the output exists and overwriting is off
  kIo = 5,              ///< the operating system refused to read or write
  kTruncated = 6,       ///< input ends before what it declares
  kCorrupt = 7,         ///< input contradicts its own format or its digest
  kUnsupported = 8,     ///< well formed, but a version, type or feature this build does not know
  kLimit = 9,           ///< input declares more than the stated bound
  kShapeMismatch = 10,  ///< names or shapes do not fit each other
  kNonFinite = 11,      ///< NaN or infinity where numbers were needed
  kConfig = 12,         ///< a settings file or key is wrong
  kPluginRefused = 13,  ///< a plugin file may not be loaded, or failed to register
  kPluginMissing = 14,  ///< a layer type is named that no loaded plugin provides
  kTargetNotMet = 15,   ///< the target size or quality is not reached
  kInterrupted = 16,    ///< the user or the system requested a stop
  kPluginFailed = 17,   ///< code of a plugin threw, or returned something that cannot be used
};

/// Stable lower-case name of a code ("shape_mismatch"), as printed by --json.
std::string_view errc_name(Errc code) noexcept;

#ifdef GBC_FREESTANDING  // libgbz (sdk/c) has no exceptions of the C++ run time
class Error {
 public:
  Error(Errc code, std::string message) : message_(std::move(message)), code_(code) {}
  const char* what() const noexcept { return message_.c_str(); }
  Errc code() const noexcept { return code_; }

 private:
  std::string message_;
  Errc code_;
};
#else
class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};
#endif

// Words for messages.

/// A name made safe to print: control characters and bytes outside UTF-8's printable range become
/// `\xNN`.
std::string printable(std::string_view text);

/// The candidate with the smallest edit distance to `word`, or "" where none is near (more than one
/// and more than a third of its letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The `count` candidates with the smallest edit distances, the nearest first.
std::vector<std::string> nearest_few(std::string_view word,
                                     const std::vector<std::string>& candidates, std::size_t count);
/// "; did you mean X?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Requests to stop or to save, for handlers of signals, which are the program's own. What takes
// long asks between steps: train(), compress(), decode_to_file(); a loop of one's own does it by
// throw_if_interrupted().

/// [async-signal-safe] @param signal  2 for SIGINT, 15 for SIGTERM
void request_interrupt(int signal) noexcept;
/// The signal that requested a stop, 0 for none. [thread-safe]
int interrupt_requested() noexcept;
/// [async-signal-safe] Requests a checkpoint; the work continues.
void request_checkpoint() noexcept;
/// Whether one was requested since the last call. [thread-safe]
bool take_checkpoint_request() noexcept;
/// @throws Error(kInterrupted) after a request to stop
void throw_if_interrupted();

}  // namespace gbcompress
